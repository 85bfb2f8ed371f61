/* The Python module testbed.netcore._core: RoCEv2 helpers and sockets. What each function does is told in __init__.pyi. */
#include "module.h"

#include "clock.h"
#include "fabric.h"
#include "frame.h"
#include "icrc.h"
#include "port.h"
#include "roce.h"
#include "udp.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>

#define IPV4_HEADER_MAX 60

/* --- RoCEv2 -------------------------------------------------------------------------------------------------------- */

static PyObject *py_icrc(PyObject *module, PyObject *args)
{
    Py_buffer headers, data;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:icrc", &headers, &data))
        return NULL;
    const uint8_t *ip = headers.buf;
    Py_ssize_t ip_bytes = headers.len - UDP_BYTES;
    if (ip_bytes < IPV4_BYTES || ip_bytes > IPV4_HEADER_MAX || ip[0] >> 4 != 4 || (ip[0] & 15) * 4 != ip_bytes ||
        ip[9] != PROTOCOL_UDP)
        PyErr_SetString(PyExc_ValueError, "headers must be one IPv4 header and one UDP header");
    else if (data.len < BTH_BYTES)
        PyErr_SetString(PyExc_ValueError, "data must begin with a BTH of 12 bytes");
    else
        result = PyLong_FromUnsignedLong(icrc(ip, (size_t)ip_bytes, ip + ip_bytes, data.buf, (size_t)data.len));
    PyBuffer_Release(&headers);
    PyBuffer_Release(&data);
    return result;
}

static int append_piece(PyObject *pieces, const struct roce_piece *piece)
{
    PyObject *entry = Py_BuildValue("nnn", (Py_ssize_t)piece->offset, (Py_ssize_t)piece->bytes,
                                    (Py_ssize_t)piece->segment_bytes);
    int result = entry ? PyList_Append(pieces, entry) : -1;
    Py_XDECREF(entry);
    return result;
}

/* Lay the packets out; a list of pieces, or NULL with an exception. */
static PyObject *encode(Py_buffer *buffer, PyObject *headers, Py_buffer *payload, size_t segment_bytes,
                        const struct icrc_flow *flow, bool segmented)
{
    size_t count = (size_t)PySequence_Fast_GET_SIZE(headers), length = (size_t)payload->len;
    size_t segments = segment_bytes ? (length + segment_bytes - 1) / segment_bytes : 0;
    bool fits = length ? count == segments : segment_bytes ? count == 1 : count > 0;
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "%zu headers for a payload of %zu bytes in segments of %zu", count, length,
                            segment_bytes);
    PyObject *pieces = PyList_New(0);
    struct roce_piece piece = {0};
    for (size_t i = 0; pieces && i < count; i++) {
        PyObject *header = PySequence_Fast_GET_ITEM(headers, i);
        size_t offset = i * segment_bytes;
        size_t payload_bytes = length - offset < segment_bytes ? length - offset : segment_bytes;
        if (!PyBytes_Check(header) || PyBytes_GET_SIZE(header) < BTH_BYTES) {
            PyErr_SetString(PyExc_ValueError, "a header must be bytes that begin with a BTH of 12 bytes");
            Py_CLEAR(pieces);
            break;
        }
        size_t header_bytes = (size_t)PyBytes_GET_SIZE(header);
        size_t bytes = roce_packet_bytes(header_bytes, payload_bytes);
        if (piece.packets && !roce_piece_fits(&piece, bytes)) {
            if (append_piece(pieces, &piece) != 0) {
                Py_CLEAR(pieces);
                break;
            }
            piece = (struct roce_piece){.offset = piece.offset + piece.bytes};
        }
        if (bytes > ROCE_DATAGRAM_BYTES || piece.offset + piece.bytes + bytes > (size_t)buffer->len) {
            PyErr_SetString(PyExc_ValueError, "buffer is too small, or a packet too large");
            Py_CLEAR(pieces);
            break;
        }
        roce_piece_append(&piece, buffer->buf, flow, (uint16_t)(segmented ? piece.packets : 0),
                          (const uint8_t *)PyBytes_AS_STRING(header), header_bytes,
                          (const uint8_t *)payload->buf + offset, payload_bytes);
    }
    if (pieces && append_piece(pieces, &piece) != 0)
        Py_CLEAR(pieces);
    return pieces;
}

static PyObject *py_roce_encode(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"buffer",    "headers",     "payload",     "segment_bytes", "source_ip",
                            "target_ip", "source_port", "target_port", "segmented",     NULL};
    Py_buffer buffer, payload;
    PyObject *headers;
    Py_ssize_t segment_bytes;
    unsigned int source_ip, target_ip;
    unsigned short source_port, target_port;
    int segmented = 1;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "w*Oy*nIIHH|p:roce_encode", names, &buffer, &headers, &payload,
                                     &segment_bytes, &source_ip, &target_ip, &source_port, &target_port, &segmented))
        return NULL;
    PyObject *sequence = PySequence_Fast(headers, "headers must be a sequence of bytes"), *result = NULL;
    struct icrc_flow flow = {source_ip, target_ip, source_port, target_port};
    if (sequence && segment_bytes < 0)
        PyErr_SetString(PyExc_ValueError, "segment_bytes must not be negative");
    else if (sequence)
        result = encode(&buffer, sequence, &payload, (size_t)segment_bytes, &flow, segmented);
    Py_XDECREF(sequence);
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&payload);
    return result;
}

/* A run being gathered by `decode`. */
struct gathered_run {
    PyObject *headers; /* list */
    Py_ssize_t start, stop;
    size_t segment_bytes;
};

static int close_run(PyObject *runs, PyObject *data, struct gathered_run *run)
{
    if (!run->headers)
        return 0;
    PyObject *start = PyLong_FromSsize_t(run->start), *stop = PyLong_FromSsize_t(run->stop);
    PyObject *slice = start && stop ? PySlice_New(start, stop, NULL) : NULL;
    PyObject *payload = slice ? PyObject_GetItem(data, slice) : NULL;
    PyObject *headers = PyList_AsTuple(run->headers);
    PyObject *entry = payload && headers ? Py_BuildValue("OOn", headers, payload, (Py_ssize_t)run->segment_bytes) : NULL;
    int result = entry ? PyList_Append(runs, entry) : -1;
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(slice);
    Py_XDECREF(payload);
    Py_XDECREF(headers);
    Py_XDECREF(entry);
    Py_CLEAR(run->headers);
    return result;
}

static int take_packet(PyObject *runs, PyObject *data, struct gathered_run *run, struct roce_reader *reader,
                       const struct roce_packet *packet)
{
    if (packet->begins_run) {
        if (close_run(runs, data, run) != 0)
            return -1;
        *run = (struct gathered_run){PyList_New(0), (Py_ssize_t)packet->payload_at, 0, packet->payload_bytes};
        if (!run->headers)
            return -1;
    }
    PyObject *header = PyBytes_FromStringAndSize((const char *)reader->data + packet->header_at,
                                                 (Py_ssize_t)packet->header_bytes);
    int result = header ? PyList_Append(run->headers, header) : -1;
    Py_XDECREF(header);
    roce_gather(reader, packet);
    run->stop = (Py_ssize_t)(packet->payload_at + packet->payload_bytes);
    return result;
}

static PyObject *decode(PyObject *data, struct roce_reader *reader)
{
    PyObject *runs = PyList_New(0);
    struct gathered_run run = {0};
    struct roce_packet packet;
    if (!runs)
        return NULL;
    while (roce_read(reader, &packet))
        if (take_packet(runs, data, &run, reader, &packet) != 0)
            goto failed;
    if (close_run(runs, data, &run) != 0)
        goto failed;
    return Py_BuildValue("NII", runs, reader->wrong_icrc, reader->malformed);
failed:
    Py_XDECREF(run.headers);
    Py_DECREF(runs);
    return NULL;
}

static PyObject *py_roce_decode(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"data",        "segment_bytes", "source_ip", "target_ip",
                            "source_port", "target_port",   "opcodes",   NULL};
    PyObject *data;
    Py_buffer opcodes, bytes;
    Py_ssize_t segment_bytes;
    struct icrc_flow flow;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!nIIHHy*:roce_decode", names, &PyMemoryView_Type, &data,
                                     &segment_bytes, &flow.source_ip, &flow.target_ip, &flow.source_port,
                                     &flow.target_port, &opcodes))
        return NULL;
    PyObject *result = NULL;
    if (opcodes.len != 256 || segment_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "opcodes must have 256 entries, and segment_bytes not be negative");
    } else if (PyObject_GetBuffer(data, &bytes, PyBUF_CONTIG) == 0) {
        if (bytes.itemsize != 1 || bytes.ndim > 1) {
            PyErr_SetString(PyExc_ValueError, "data must be a flat view of bytes");
        } else {
            struct roce_reader reader = {
                .data = bytes.buf,
                .length = (size_t)bytes.len,
                .segment_bytes = (size_t)segment_bytes,
                .flow = flow,
                .opcodes = opcodes.buf,
            };
            result = decode(data, &reader);
        }
        PyBuffer_Release(&bytes);
    }
    PyBuffer_Release(&opcodes);
    return result;
}

/* --- sockets ------------------------------------------------------------------------------------------------------- */

static PyObject *py_prepare_udp(PyObject *module, PyObject *args)
{
    int fd;
    (void)module;
    if (!PyArg_ParseTuple(args, "i:prepare_udp", &fd))
        return NULL;
    if (!udp_prepare(fd))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *py_send_segments(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"fd", "target_ip", "target_port", "data", "segment_bytes", "tos", "segmented", NULL};
    int fd, segmented = 1;
    unsigned int ip;
    unsigned short port;
    unsigned char tos;
    Py_buffer data;
    Py_ssize_t segment_bytes, sent = -1;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "iIHy*nb|p:send_segments", names, &fd, &ip, &port, &data,
                                     &segment_bytes, &tos, &segmented))
        return NULL;
    if (segment_bytes < 1 || segment_bytes > ROCE_DATAGRAM_BYTES) {
        PyErr_SetString(PyExc_ValueError, "segment_bytes must be within 1 and 65507");
    } else {
        Py_BEGIN_ALLOW_THREADS
        sent = udp_send(fd, ip, port, data.buf, (size_t)data.len, (size_t)segment_bytes, tos, segmented);
        Py_END_ALLOW_THREADS
        if (sent < 0)
            PyErr_SetFromErrno(PyExc_OSError);
    }
    PyBuffer_Release(&data);
    return sent < 0 ? NULL : PyLong_FromSsize_t(sent);
}

static PyObject *py_receive_segments(PyObject *module, PyObject *args)
{
    int fd, got;
    Py_buffer buffer;
    struct udp_message messages[UDP_RECEIVE_BATCH];
    (void)module;
    if (!PyArg_ParseTuple(args, "iw*:receive_segments", &fd, &buffer))
        return NULL;
    if (buffer.len == 0 || buffer.len % UDP_SLOT_BYTES) {
        PyBuffer_Release(&buffer);
        return PyErr_Format(PyExc_ValueError, "the buffer's length must be a multiple of %d", UDP_SLOT_BYTES);
    }
    Py_BEGIN_ALLOW_THREADS
    got = udp_receive(fd, buffer.buf, (size_t)buffer.len / UDP_SLOT_BYTES, messages);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&buffer);
    if (got < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *list = PyList_New(got);
    for (int i = 0; list && i < got; i++) {
        const struct udp_message *of = &messages[i];
        PyObject *entry =
            Py_BuildValue("nnnIHBL", (Py_ssize_t)of->offset, (Py_ssize_t)of->bytes, (Py_ssize_t)of->segment_bytes,
                          of->source_ip, of->source_port, of->tos, (long long)of->at_ns);
        if (!entry)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, entry);
    }
    return list;
}

static PyObject *py_socket_drops(PyObject *module, PyObject *args)
{
    int fd;
    (void)module;
    if (!PyArg_ParseTuple(args, "i:socket_drops", &fd))
        return NULL;
    int64_t drops = udp_drops(fd);
    return drops < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLongLong(drops);
}

static PyObject *ready_list(const struct pollfd *fds, Py_ssize_t count)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        if (!fds[i].revents)
            continue;
        PyObject *entry = Py_BuildValue("ih", fds[i].fd, fds[i].revents);
        if (!entry || PyList_Append(list, entry) != 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

/* Fill in what is watched from tuples (fd, events); false: an exception is set. */
static bool fill_watched(struct pollfd *fds, PyObject *fast)
{
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *pair = PySequence_Fast_GET_ITEM(fast, i);
        if (!PyTuple_Check(pair)) {
            PyErr_SetString(PyExc_TypeError, "fds must be tuples (fd, events)");
            return false;
        }
        if (!PyArg_ParseTuple(pair, "ih:ppoll", &fds[i].fd, &fds[i].events))
            return false;
    }
    return true;
}

static PyObject *poll_watched(struct pollfd *fds, Py_ssize_t count, PyObject *timeout)
{
    struct timespec limit = {0};
    if (timeout != Py_None) {
        long long wait_ns = PyLong_AsLongLong(timeout);
        if (wait_ns == -1 && PyErr_Occurred())
            return NULL;
        if (wait_ns > 0)
            limit = (struct timespec){wait_ns / NS_PER_S, wait_ns % NS_PER_S};
    }
    int ready;
    Py_BEGIN_ALLOW_THREADS
    ready = ppoll(fds, (nfds_t)count, timeout == Py_None ? NULL : &limit, NULL);
    Py_END_ALLOW_THREADS
    if (ready < 0 && errno != EINTR)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (ready < 0 && PyErr_CheckSignals() != 0)
        return NULL;
    return ready < 0 ? PyList_New(0) : ready_list(fds, count);
}

static PyObject *py_ppoll(PyObject *module, PyObject *args)
{
    PyObject *sequence, *timeout, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:ppoll", &sequence, &timeout))
        return NULL;
    PyObject *fast = PySequence_Fast(sequence, "fds must be a sequence");
    if (!fast)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    struct pollfd *fds = PyMem_Calloc((size_t)count, sizeof *fds);
    if (!fds)
        PyErr_NoMemory();
    else if (fill_watched(fds, fast))
        result = poll_watched(fds, count, timeout);
    PyMem_Free(fds);
    Py_DECREF(fast);
    return result;
}

static PyObject *py_set_timer_slack(PyObject *module, PyObject *args)
{
    unsigned long slack_ns;
    (void)module;
    if (!PyArg_ParseTuple(args, "k:set_timer_slack", &slack_ns))
        return NULL;
    if (prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* --- devices ------------------------------------------------------------------------------------------------------- */

static PyObject *py_open_tap(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "virtio", "segmentation", NULL};
    const char *name;
    int virtio, asked;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "spp:open_tap", names, &name, &virtio, &asked))
        return NULL;
    bool segmentation = asked;
    int fd = port_open_tap(name, virtio, &segmentation);
    if (fd < 0)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
    return Py_BuildValue("iN", fd, PyBool_FromLong(segmentation));
}

static PyObject *py_open_packet(PyObject *module, PyObject *args)
{
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "s:open_packet", &name))
        return NULL;
    int fd = interface_open(name);
    if (fd < 0)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
    return PyLong_FromLong(fd);
}

static PyObject *py_packet_drops(PyObject *module, PyObject *args)
{
    int fd;
    (void)module;
    if (!PyArg_ParseTuple(args, "i:packet_drops", &fd))
        return NULL;
    return PyLong_FromUnsignedLong(interface_drops(fd));
}

static PyObject *py_set_running(PyObject *module, PyObject *args)
{
    const char *name;
    int running;
    (void)module;
    if (!PyArg_ParseTuple(args, "sp:set_running", &name, &running))
        return NULL;
    if (!port_set_running(name, running))
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
    Py_RETURN_NONE;
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"icrc", py_icrc, METH_VARARGS, NULL},
    {"roce_encode", KEYWORDS(py_roce_encode), NULL},
    {"roce_decode", KEYWORDS(py_roce_decode), NULL},
    {"prepare_udp", py_prepare_udp, METH_VARARGS, NULL},
    {"send_segments", KEYWORDS(py_send_segments), NULL},
    {"receive_segments", py_receive_segments, METH_VARARGS, NULL},
    {"socket_drops", py_socket_drops, METH_VARARGS, NULL},
    {"ppoll", py_ppoll, METH_VARARGS, NULL},
    {"set_timer_slack", py_set_timer_slack, METH_VARARGS, NULL},
    {"open_tap", KEYWORDS(py_open_tap), NULL},
    {"open_packet", py_open_packet, METH_VARARGS, NULL},
    {"packet_drops", py_packet_drops, METH_VARARGS, NULL},
    {"set_running", py_set_running, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "testbed.netcore._core",
    .m_methods = functions,
};

PyTypeObject *fabric_type;

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    PyObject *fabric = PyType_FromSpec(&fabric_type_spec), *fast = PyType_FromSpec(&fast_type_spec);
    if (!fabric || !fast || PyModule_AddObjectRef(module, "Fabric", fabric) != 0 ||
        PyModule_AddObjectRef(module, "FastPath", fast) != 0 ||
        PyModule_AddIntConstant(module, "SLOT_BYTES", UDP_SLOT_BYTES) != 0 ||
        PyModule_AddIntConstant(module, "MAX_SEGMENTS", ROCE_SEGMENTS) != 0 ||
        PyModule_AddIntConstant(module, "MAX_DATAGRAM_BYTES", ROCE_DATAGRAM_BYTES) != 0 ||
        PyModule_AddIntConstant(module, "LONGEST_NS", LINK_LONGEST_NS) != 0 ||
        PyModule_AddIntConstant(module, "JOBS", LINK_JOBS) != 0 ||
        PyModule_AddIntConstant(module, "CPU_PORT", SWITCH_CPU_PORT) != 0 ||
        PyModule_AddIntConstant(module, "PASSES", SWITCH_PASSES) != 0 ||
        PyModule_AddIntConstant(module, "HOLD_LIMIT_S", FABRIC_HOLD_LIMIT_S) != 0) {
        Py_XDECREF(fabric);
        Py_XDECREF(fast);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(fast);
    fabric_type = (PyTypeObject *)fabric; /* the module's reference stays */
    return module;
}
