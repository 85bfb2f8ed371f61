/* Methods of the Python type Fabric about sockets under a virtual clock. What they do is told in __init__.pyi. */
#include "run_type.h"

#include "icrc.h"
#include "outgoing.h"
#include "roce.h"

#include <stdlib.h>
#include <string.h>

bool socket_type_tell(struct socket_object *object, PyObject *function, struct arrived *taken, const struct arrived *from,
                      int64_t now_ns)
{
    PyObject *runs = PyList_New(0);
    for (const struct arrived *run = from; runs && run; run = run->next) {
        PyObject *tuple = runs_told(&object->socket, run);
        if (!tuple || PyList_Append(runs, tuple) != 0)
            Py_CLEAR(runs);
        Py_XDECREF(tuple);
    }
    socket_forget(&object->socket, taken);
    runs_settle(object->owner);
    PyObject *arguments[] = {runs ? PyLong_FromLongLong(now_ns) : NULL, runs}, *result = NULL;
    if (arguments[0] && runs)
        result = PyObject_Vectorcall(function, arguments, 2, NULL);
    Py_XDECREF(arguments[0]);
    Py_XDECREF(runs);
    Py_XDECREF(result);
    return result;
}

bool socket_type_serve(struct due *due, int64_t now_ns)
{
    struct socket_object *object = CONTAINER_OF(CONTAINER_OF(due, struct socket, due), struct socket_object, socket);
    struct arrived *arrived = socket_take(&object->socket);
    return socket_type_tell(object, object->turn, arrived, arrived, now_ns);
}

/* --- opening ------------------------------------------------------------------------------------------------------- */

/* The stack of a memory port with a link and an address; NULL: an exception tells that there is none. */
static struct stack *stack_of(PyObject *self, Py_ssize_t index)
{
    struct fabric_port *port = fabric_type_virtual(self) ? fabric_type_port(fabric_of(self), index) : NULL;
    if (port && (port->kind != FABRIC_MEMORY || !port->out || !port->addressed)) {
        PyErr_Format(PyExc_ValueError, "port %zd is no memory port with a link and addresses", index);
        return NULL;
    }
    if (port && !port->stack && !(port->stack = stack_new(port)))
        PyErr_NoMemory();
    return port ? port->stack : NULL;
}

static bool is_taken(const struct stack *stack, uint16_t first, uint16_t last)
{
    for (const struct socket *socket = stack->sockets; socket; socket = socket->next)
        if (socket->udp_port >= first && socket->udp_port <= last)
            return true;
    for (const struct sink *sink = stack->sinks; sink; sink = sink->next)
        if (sink->first <= last && sink->last >= first)
            return true;
    return false;
}

/* A new socket in its place; NULL: no memory. */
static struct socket_object *new_socket(struct fabric_object *self)
{
    struct socket_object **sockets = realloc(self->sockets, (self->socket_count + 1) * sizeof *sockets);
    if (sockets)
        self->sockets = sockets;
    struct socket_object *object = calloc(1, sizeof *object);
    if (!sockets || !object) {
        free(object);
        PyErr_NoMemory();
        return NULL;
    }
    object->owner = self;
    return self->sockets[self->socket_count++] = object;
}

PyObject *py_add_neighbour(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ip", "mac", NULL};
    unsigned int ip;
    const char *mac;
    Py_ssize_t length;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Iy#:add_neighbour", names, &ip, &mac, &length) ||
        !fabric_type_virtual(self))
        return NULL;
    if (length != sizeof ((struct neighbour *)NULL)->mac)
        return PyErr_Format(PyExc_ValueError, "a MAC address has 6 bytes");
    return addresses_add(&fabric_of(self)->addresses, ip, (const uint8_t *)mac) ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

PyObject *py_open_socket(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"port", "udp_port", "turn", "framing", "opcodes", NULL};
    struct fabric_object *object = (struct fabric_object *)self;
    Py_ssize_t index, opcode_count = 0;
    unsigned short udp_port;
    PyObject *turn;
    const char *framing, *opcodes = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nHO|$sy#:open_socket", names, &index, &udp_port, &turn, &framing,
                                     &opcodes, &opcode_count))
        return NULL;
    bool roce = framing && strcmp(framing, "roce") == 0;
    if (!framing || (!roce && strcmp(framing, "plain") != 0))
        return PyErr_Format(PyExc_ValueError, "framing is \"roce\" or \"plain\"");
    if (opcode_count && (!roce || opcode_count != 256))
        return PyErr_Format(PyExc_ValueError, "opcodes are 256 bytes, of RoCE");
    struct stack *stack = stack_of(self, index);
    if (!stack)
        return NULL;
    if (is_taken(stack, udp_port, udp_port))
        return PyErr_Format(PyExc_ValueError, "UDP port %d of port %zd is taken", udp_port, index);
    struct socket_object *made = new_socket(object);
    if (!made)
        return NULL;
    socket_init(&made->socket, stack, udp_port, roce, opcode_count ? (const uint8_t *)opcodes : NULL);
    made->socket.due.serve = socket_type_serve;
    made->turn = Py_NewRef(turn);
    made->socket.next = stack->sockets;
    stack->sockets = &made->socket;
    object->fabric->refers = true;
    return PyLong_FromSize_t(object->socket_count - 1);
}

struct socket_object *fabric_type_socket(PyObject *self, PyObject *number)
{
    struct fabric_object *object = (struct fabric_object *)self;
    Py_ssize_t index = PyLong_AsSsize_t(number);
    if (index >= 0 && (size_t)index < object->socket_count)
        return object->sockets[index];
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_IndexError, "there is no socket %zd", index);
    return NULL;
}

/* --- sending ------------------------------------------------------------------------------------------------------- */

/* Whether headers and payload fit each other, and each packet a frame; else an exception tells. */
static bool is_run(const struct socket *socket, PyObject *headers, Py_ssize_t payload_bytes, Py_ssize_t segment_bytes)
{
    Py_ssize_t count = PyTuple_GET_SIZE(headers), least = socket->roce ? BTH_BYTES : 0;
    Py_ssize_t segments = segment_bytes > 0 ? (payload_bytes + segment_bytes - 1) / segment_bytes : 0;
    bool fits = payload_bytes ? count == segments : count == 1 || segment_bytes == 0;
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        PyObject *header = PyTuple_GET_ITEM(headers, i);
        fits = PyBytes_Check(header) && PyBytes_GET_SIZE(header) >= least &&
               HEADERS_BYTES + PyBytes_GET_SIZE(header) + segment_bytes + 3 + ICRC_BYTES <= FRAME_MAX_BYTES;
    }
    if (!fits)
        PyErr_Format(PyExc_ValueError, "a run has a header of bytes for each segment, and packets of at most 65535 bytes");
    return fits;
}

/* The packets of a run; false: an exception tells why not. */
static bool make_packets(struct outgoing *outgoing, struct sent *sent, Py_ssize_t segment_bytes, struct packet_list *packets)
{
    Py_ssize_t left = sent->bytes.len;
    const uint8_t *payload = sent->bytes.buf;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sent->headers); i++) {
        PyObject *header = PyTuple_GET_ITEM(sent->headers, i);
        size_t bytes = (size_t)(left < segment_bytes ? left : segment_bytes);
        const uint8_t *written = (const uint8_t *)PyBytes_AS_STRING(header);
        struct outgoing_segment segment = {written, (size_t)PyBytes_GET_SIZE(header), payload, bytes};
        struct packet *packet = outgoing->socket->roce ? outgoing_roce(outgoing, (size_t)i, segment, &sent->payload)
                                                       : outgoing_plain(outgoing, (size_t)i, segment);
        if (!packet) {
            PyErr_NoMemory();
            return false;
        }
        packet_append(packets, packet);
        payload += bytes;
        left -= (Py_ssize_t)bytes;
    }
    return true;
}

static PyObject *send(struct fabric_object *self, struct outgoing *outgoing, PyObject *headers, PyObject *payload,
                      Py_ssize_t segment_bytes)
{
    struct sent *sent = runs_new(self, headers, payload);
    struct packet_list packets = {0};
    if (!sent)
        return NULL;
    bool well = is_run(outgoing->socket, headers, sent->bytes.len, segment_bytes) &&
                make_packets(outgoing, sent, segment_bytes, &packets);
    struct stack *stack = outgoing->socket->stack;
    if (well)
        stack_send(stack, packets, fabric_catch_up(outgoing->fabric));
    else
        for (struct packet *packet; (packet = packet_take(&packets));)
            packet_free(&outgoing->fabric->pool, packet);
    payload_drop(&sent->payload);
    return well ? PyLong_FromLongLong(stack->nic_ns) : NULL;
}

PyObject *py_send_run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct fabric_object *object = (struct fabric_object *)self;
    if (count != 7)
        return PyErr_Format(PyExc_TypeError, "send_run takes 7 arguments");
    struct socket_object *from = fabric_type_socket(self, args[0]);
    if (!from)
        return NULL;
    struct outgoing outgoing;
    unsigned long target_ip = PyLong_AsUnsignedLong(args[1]), source_port = PyLong_AsUnsignedLong(args[2]);
    unsigned long tos = PyLong_AsUnsignedLong(args[3]);
    Py_ssize_t segment_bytes = PyLong_AsSsize_t(args[6]);
    if (PyErr_Occurred())
        return NULL;
    if (target_ip > UINT32_MAX || source_port > UINT16_MAX || tos > UINT8_MAX || segment_bytes < 0)
        return PyErr_Format(PyExc_ValueError, "an address has 32 bits, a port 16 and a ToS 8, and a segment 0 bytes or more");
    if (!outgoing_address(&outgoing, &from->socket, (uint32_t)target_ip, (uint16_t)source_port, (uint8_t)tos))
        return PyErr_Format(PyExc_ValueError, "nobody has the address %lu.%lu.%lu.%lu", target_ip >> 24,
                            target_ip >> 16 & 255, target_ip >> 8 & 255, target_ip & 255);
    PyObject *headers = PyTuple_CheckExact(args[4]) ? Py_NewRef(args[4]) : PySequence_Tuple(args[4]);
    PyObject *result = headers ? send(object, &outgoing, headers, args[5], segment_bytes) : NULL;
    Py_XDECREF(headers);
    return result;
}

/* --- alarms, sinks, costs ------------------------------------------------------------------------------------------ */

PyObject *py_alarm(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    int free = 0;
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    if (count != 2 || named > 1 ||
        (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "free") != 0))
        return PyErr_Format(PyExc_TypeError, "alarm takes a socket, an instant and free=");
    struct socket_object *object = fabric_type_socket(self, args[0]);
    long long at_ns = args[1] == Py_None ? EVENTQ_NEVER : PyLong_AsLongLong(args[1]);
    if (!object || PyErr_Occurred() || (named && (free = PyObject_IsTrue(args[2])) < 0))
        return NULL;
    if (!socket_set_alarm(&object->socket, at_ns, free, fabric_of(self)->virtual_ns))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyObject *py_sink(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"port", "first_udp_port", "last_udp_port", NULL};
    Py_ssize_t index;
    unsigned short first, last;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nHH:sink", names, &index, &first, &last))
        return NULL;
    struct stack *stack = stack_of(self, index);
    if (!stack)
        return NULL;
    if (first > last || is_taken(stack, first, last))
        return PyErr_Format(PyExc_ValueError, "UDP ports %d to %d of port %zd are none, or taken", first, last, index);
    return stack_add_sink(stack, first, last) ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

PyObject *py_sink_counts(PyObject *self, PyObject *argument)
{
    Py_ssize_t index = PyLong_AsSsize_t(argument);
    if (index == -1 && PyErr_Occurred())
        return NULL;
    const struct stack *stack = stack_of(self, index);
    unsigned long long packets = 0, bytes = 0;
    if (!stack)
        return NULL;
    for (const struct sink *sink = stack->sinks; sink; sink = sink->next) {
        packets += sink->packets;
        bytes += sink->bytes;
    }
    return Py_BuildValue("KK", packets, bytes);
}

PyObject *py_set_host_cost(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"port", "per_packet_ns", "per_byte_ns", NULL};
    Py_ssize_t index;
    double per_packet_ns, per_byte_ns;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ndd:set_host_cost", names, &index, &per_packet_ns, &per_byte_ns))
        return NULL;
    struct stack *stack = stack_of(self, index);
    if (!stack)
        return NULL;
    if (!(per_packet_ns >= 0 && per_packet_ns <= 1e9 && per_byte_ns >= 0 && per_byte_ns <= 1e6))
        return PyErr_Format(PyExc_ValueError, "a packet costs 0 to 1 s, and a byte 0 to 1 ms");
    stack->per_packet_ps = (int64_t)(per_packet_ns * PS_PER_NS + 0.5);
    stack->per_byte_ps = (int64_t)(per_byte_ns * PS_PER_NS + 0.5);
    Py_RETURN_NONE;
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

int sockets_traverse(struct fabric_object *self, visitproc visit, void *arg)
{
    for (size_t i = 0; i < self->socket_count; i++)
        Py_VISIT(self->sockets[i]->turn);
    return 0;
}

void sockets_clear(struct fabric_object *self)
{
    for (size_t i = 0; i < self->socket_count; i++)
        Py_SETREF(self->sockets[i]->turn, Py_NewRef(Py_None));
}

void sockets_free(struct fabric_object *self)
{
    for (size_t i = 0; i < self->socket_count; i++) {
        socket_destroy(&self->sockets[i]->socket);
        Py_XDECREF(self->sockets[i]->turn);
        free(self->sockets[i]);
    }
    free(self->sockets);
}
