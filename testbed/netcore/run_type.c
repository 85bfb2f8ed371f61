/* What is told in run_type.h. */
#include "run_type.h"

#include <stdlib.h>
#include <string.h>

static void put_in(struct sent **list, struct sent *sent)
{
    sent->next = *list;
    sent->before = NULL;
    if (sent->next)
        sent->next->before = sent;
    *list = sent;
}

static void take_out(struct sent **list, struct sent *sent)
{
    if (sent->before)
        sent->before->next = sent->next;
    else
        *list = sent->next;
    if (sent->next)
        sent->next->before = sent->before;
}

/* No packet refers to a run any more. What dropping its references brings about is not to happen within an event. */
static void on_release(struct payload *payload)
{
    struct sent *sent = CONTAINER_OF(payload, struct sent, payload);
    take_out(&sent->owner->sent, sent);
    put_in(&sent->owner->released, sent);
}

static void drop_references(struct sent *sent)
{
    Py_CLEAR(sent->headers);
    Py_CLEAR(sent->view);
    PyBuffer_Release(&sent->bytes);
}

void runs_settle(struct fabric_object *self)
{
    for (struct sent *sent; (sent = self->released);) {
        take_out(&self->released, sent);
        drop_references(sent);
        put_in(&self->spare_sent, sent);
    }
}

/* Whether a memoryview is one of single bytes. */
static bool is_flat(PyObject *view)
{
    const Py_buffer *of = PyMemoryView_GET_BUFFER(view);
    return of->itemsize == 1 && of->ndim == 1;
}

struct sent *runs_new(struct fabric_object *self, PyObject *headers, PyObject *payload)
{
    struct sent *sent = self->spare_sent;
    if (sent)
        take_out(&self->spare_sent, sent);
    else if (!(sent = calloc(1, sizeof *sent))) {
        PyErr_NoMemory();
        return NULL;
    }
    sent->owner = self;
    sent->payload = (struct payload){1, on_release}; /* the caller's */
    if (PyObject_GetBuffer(payload, &sent->bytes, PyBUF_SIMPLE) != 0) {
        put_in(&self->spare_sent, sent);
        return NULL;
    }
    sent->headers = Py_NewRef(headers);
    sent->view = PyMemoryView_Check(payload) && is_flat(payload) ? Py_NewRef(payload) : NULL;
    put_in(&self->sent, sent);
    return sent;
}

/* --- telling ------------------------------------------------------------------------------------------------------- */

/* The number that a packet has in the run that it was sent in, if it has the same header still; else -1. */
static Py_ssize_t number_of(const struct sent *sent, const struct packet *packet, const struct roce_frame *at)
{
    Py_ssize_t number = load16(packet->frame + packet->layout.network + 4);
    if (number >= PyTuple_GET_SIZE(sent->headers))
        return -1;
    PyObject *header = PyTuple_GET_ITEM(sent->headers, number);
    bool same = (size_t)PyBytes_GET_SIZE(header) == at->header_bytes &&
                memcmp(PyBytes_AS_STRING(header), packet->frame + at->header_at, at->header_bytes) == 0;
    return same ? number : -1;
}

/* The headers of a run, by reference where all are as they were sent, in their order from number `*first` on. */
static PyObject *headers_of(const struct socket *socket, const struct arrived *run, const struct sent *sent)
{
    Py_ssize_t first = -1, count = 0;
    struct roce_frame at;
    for (struct packet *packet = run->packets.first; sent && packet; packet = packet->next, count++) {
        Py_ssize_t number = socket_read_roce(socket, packet, &at) ? number_of(sent, packet, &at) : -1;
        first = count ? first : number;
        if (number < 0 || number != first + count)
            break;
    }
    if (count == run->count)
        return PyTuple_GetSlice(sent->headers, first, first + count);
    PyObject *headers = PyTuple_New(run->count);
    count = 0;
    for (struct packet *packet = run->packets.first; headers && packet; packet = packet->next) {
        bool whole = socket_read_roce(socket, packet, &at);
        const char *header = (const char *)packet->frame + at.header_at;
        PyObject *bytes = whole ? PyBytes_FromStringAndSize(header, at.header_bytes) : NULL;
        if (!bytes)
            Py_CLEAR(headers);
        else
            PyTuple_SET_ITEM(headers, count++, bytes);
    }
    return headers;
}

static PyObject *view_of_copy(const uint8_t *bytes, Py_ssize_t length)
{
    PyObject *copy = PyBytes_FromStringAndSize((const char *)bytes, length);
    PyObject *view = copy ? PyMemoryView_FromObject(copy) : NULL;
    Py_XDECREF(copy);
    return view;
}

/* A view of an object's memory as single bytes. */
static PyObject *flat_view(PyObject *object)
{
    PyObject *view = PyMemoryView_FromObject(object);
    if (!view || is_flat(view))
        return view;
    PyObject *flat = PyObject_CallMethod(view, "cast", "s", "B");
    Py_DECREF(view);
    return flat;
}

/* A part of the memory that a run was sent from. */
static PyObject *view_of(struct sent *sent, Py_ssize_t from, Py_ssize_t length)
{
    if (!sent->view && !(sent->view = flat_view(sent->bytes.obj)))
        return NULL;
    if (from == 0 && length == sent->bytes.len)
        return Py_NewRef(sent->view);
    return PySequence_GetSlice(sent->view, from, from + length);
}

PyObject *runs_told(const struct socket *socket, const struct arrived *run)
{
    struct packet *packet = run->packets.first;
    const struct frame_layout *layout = packet_layout(packet);
    const uint8_t *ip = packet->frame + layout->network;
    struct sent *sent = packet->flags & PACKET_SPLIT ? CONTAINER_OF(packet->payload, struct sent, payload) : NULL;
    PyObject *headers = NULL, *payload = NULL;
    struct roce_frame at;
    if (run->corrupt || !socket->roce) {
        headers = PyTuple_New(0);
        payload = run->corrupt ? view_of_copy(NULL, 0) : view_of_copy(packet->frame + layout->payload, run->segment_bytes);
    } else {
        headers = headers_of(socket, run, sent);
        Py_ssize_t bytes = (Py_ssize_t)(run->count - 1) * run->segment_bytes + run->last_bytes;
        if (sent)
            payload = view_of(sent, bytes ? run->payload - (const uint8_t *)sent->bytes.buf : 0, bytes);
        else if (socket_read_roce(socket, packet, &at))
            payload = view_of_copy(packet->frame + at.header_at + at.header_bytes, bytes);
    }
    PyObject *items[] = {
        PyLong_FromUnsignedLong(load32(ip + 12)),
        PyLong_FromLong(load16(packet->frame + layout->transport)),
        PyLong_FromLong(ip[1]),
        PyLong_FromUnsignedLong(run->segment_bytes),
        headers,
        payload,
        PyLong_FromLong(run->corrupt),
    };
    bool well = true;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        well = well && items[i];
    PyObject *tuple = well ? PyTuple_New(sizeof items / sizeof *items) : NULL;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (tuple)
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, items[i]);
        else
            Py_XDECREF(items[i]);
    return tuple;
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

void runs_free(struct fabric_object *self)
{
    runs_settle(self);
    for (struct sent *lists[] = {self->sent, self->spare_sent}, **list = lists; list < lists + 2; list++)
        for (struct sent *sent = *list, *next; sent; sent = next) {
            next = sent->next;
            drop_references(sent);
            free(sent);
        }
}
