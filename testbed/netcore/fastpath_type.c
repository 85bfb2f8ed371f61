/* The Python type FastPath. What its methods do is told in __init__.pyi. */
#include "run_type.h"

#include "fastpath.h"

#include <stdlib.h>
#include <string.h>

/* Columns of a layer, in the order in which they are given. */
enum column { SEND, REDUCES, PEER, TAG, WAITS, FIRST, LAST, FREED, FREES, PLACES, BYTES, SCRATCH, COLUMNS };

struct fast_object {
    PyObject_HEAD
    struct fast_rank rank;
    PyObject *fabric;
    struct socket_object *socket;
    PyObject *ended, *odd; /* functions */
    struct sent *sent;     /* what all packets refer to: the buffer */
    Py_buffer *columns;    /* of all layers, COLUMNS each */
    size_t column_count;
};

static struct fast_rank *rank_of(PyObject *self)
{
    return &((struct fast_object *)self)->rank;
}

/* --- turns --------------------------------------------------------------------------------------------------------- */

static bool serve_fast(struct due *due, int64_t now_ns);

/* Nothing serves the socket but what was told when it was opened. */
static void detach(struct fast_object *self)
{
    if (self->socket && self->socket->fast == self) {
        self->socket->fast = NULL;
        self->socket->socket.due.serve = socket_type_serve;
    }
}

static bool call_ended(struct fast_object *self, int64_t now_ns)
{
    PyObject *result = PyObject_CallFunction(self->ended, "L", (long long)now_ns);
    Py_XDECREF(result);
    return result;
}

/* Take a turn in which `arrived` came; false: an exception tells what failed. */
static bool take_turn(struct fast_object *self, struct arrived *arrived, int64_t now_ns)
{
    struct fast_rank *rank = &self->rank;
    struct arrived *odd = fast_receive(rank, arrived, now_ns);
    bool well;
    Py_INCREF(self); /* it may be dropped by what is called */
    if (odd || fast_expired(rank, now_ns)) {
        detach(self);
        well = socket_type_tell(self->socket, self->odd, arrived, odd, now_ns);
    } else {
        socket_forget(&self->socket->socket, arrived);
        well = !fast_turn(rank, now_ns) || call_ended(self, now_ns);
        if (well && rank->lacks) {
            PyErr_NoMemory();
            well = false;
        }
    }
    Py_DECREF(self);
    return well;
}

static bool serve_fast(struct due *due, int64_t now_ns)
{
    struct socket_object *object = CONTAINER_OF(CONTAINER_OF(due, struct socket, due), struct socket_object, socket);
    return take_turn(object->fast, socket_take(&object->socket), now_ns);
}

/* --- making one ---------------------------------------------------------------------------------------------------- */

static bool refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "no fast path: %s", what);
    return false;
}

static int by_ip(const void *one, const void *other, void *pairs)
{
    uint32_t a = ((struct fast_pair *)pairs)[*(const uint32_t *)one].ip;
    uint32_t b = ((struct fast_pair *)pairs)[*(const uint32_t *)other].ip;
    return (a > b) - (a < b);
}

/* Queue pairs from a list of tuples, by peer. */
static bool take_pairs(struct fast_rank *rank, PyObject *given)
{
    Py_ssize_t count = PyList_GET_SIZE(given);
    rank->pairs = calloc((size_t)count + 1, sizeof *rank->pairs);
    rank->by_ip = calloc((size_t)count + 1, sizeof *rank->by_ip);
    if (!rank->pairs || !rank->by_ip)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        struct fast_pair *pair = &rank->pairs[i];
        unsigned int first_psn, peer_first_psn;
        struct outgoing outgoing;
        if (!PyArg_Parse(PyList_GET_ITEM(given, i), "(IIIIHII);a queue pair has seven numbers", &pair->peer, &pair->ip,
                         &pair->local_qp, &pair->remote_qp, &pair->source_port, &first_psn, &peer_first_psn))
            return false;
        if (i && pair->peer <= pair[-1].peer)
            return refuse("queue pairs are given by peer");
        if (!outgoing_address(&outgoing, rank->socket, pair->ip, 0, 0))
            return refuse("nobody has a peer's address");
        pair->head_first = pair->current_first = pair->unacknowledged = pair->next_packet = pair->end = first_psn;
        pair->asked = first_psn;
        pair->expected = peer_first_psn;
        pair->timer_ns = EVENTQ_NEVER;
        pair->incoming = FAST_NONE;
        rank->by_ip[i] = (uint32_t)i;
    }
    rank->pair_count = (uint32_t)count;
    qsort_r(rank->by_ip, (size_t)count, sizeof *rank->by_ip, by_ip, rank->pairs);
    return true;
}

static bool columns_fit(const struct fast_rank *rank, const struct fast_layer *layer, const Py_buffer *columns)
{
    static const uint8_t widths[] = {1, 1, 4, 4, 4, 8, 8, 8, 4, 8}; /* of a number of each column but the last two */
    size_t frees = (size_t)columns[FREES].len / 4;
    if (layer->operations > rank->stride)
        return refuse("a program is longer than the stride");
    for (size_t i = 0; i < sizeof widths; i++) {
        size_t rows = i == FREES ? frees : layer->operations + (i == FREED);
        if ((size_t)columns[i].len < rows * widths[i])
            return refuse("columns of a program have an entry an operation");
    }
    if (layer->freed[0] < 0 || (uint64_t)layer->freed[layer->operations] > frees)
        return refuse("what waits for an operation is not there");
    for (size_t i = 0; i < frees; i++)
        if ((uint32_t)layer->frees[i] >= layer->operations)
            return refuse("an operation that waits is not there");
    for (uint32_t i = 0; i < layer->operations; i++) {
        int64_t count = layer->last[i] - layer->first[i];
        bool within = layer->first[i] >= 0 && count > 0 && (uint64_t)layer->last[i] <= layer->elements;
        bool lands = layer->send[i] || (layer->places[i] >= 0 && (uint64_t)(layer->places[i] + count) <= layer->scratch_elements);
        if (!within || !lands || (uint64_t)count * rank->element_bytes > UINT32_MAX / 2)
            return refuse("an operation is not within its buffers");
        if (layer->freed[i] > layer->freed[i + 1] || layer->tag[i] < 0 || layer->tag[i] >= layer->tags)
            return refuse("an operation frees or names what is not there");
        if (!fast_pair_to(rank, (uint32_t)layer->peer[i]))
            return refuse("an operation has no queue pair");
    }
    return true;
}

/* Layers from a list of tuples of buffers, each with how many tags its schedule has. */
static bool take_layers(struct fast_object *self, PyObject *given)
{
    struct fast_rank *rank = &self->rank;
    Py_ssize_t count = PyList_GET_SIZE(given);
    rank->layers = calloc((size_t)count + 1, sizeof *rank->layers);
    self->columns = calloc((size_t)count * COLUMNS + 1, sizeof *self->columns);
    if (!rank->layers || !self->columns)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        struct fast_layer *layer = &rank->layers[i];
        Py_buffer *columns = self->columns + i * COLUMNS;
        PyObject *tuple = PyList_GET_ITEM(given, i);
        if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != COLUMNS + 1)
            return refuse("a layer has its columns and the number of its tags");
        for (int column = 0; column < COLUMNS; column++, self->column_count++)
            if (PyObject_GetBuffer(PyTuple_GET_ITEM(tuple, column), &columns[column],
                                   column == SCRATCH ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
                return false;
        layer->tags = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, COLUMNS));
        if (PyErr_Occurred())
            return false;
        layer->operations = (uint32_t)columns[SEND].len;
        layer->send = columns[SEND].buf;
        layer->reduces = columns[REDUCES].buf;
        layer->peer = columns[PEER].buf;
        layer->tag = columns[TAG].buf;
        layer->awaited = columns[WAITS].buf;
        layer->first = columns[FIRST].buf;
        layer->last = columns[LAST].buf;
        layer->freed = columns[FREED].buf;
        layer->frees = columns[FREES].buf;
        layer->places = columns[PLACES].buf;
        layer->bytes = columns[BYTES].buf;
        layer->elements = (uint64_t)columns[BYTES].len / rank->element_bytes;
        layer->scratch = columns[SCRATCH].buf;
        layer->scratch_elements = (uint64_t)columns[SCRATCH].len / rank->element_bytes;
        layer->first_id = (uint32_t)i * rank->stride;
        if (!columns_fit(rank, layer, columns))
            return false;
    }
    rank->layer_count = (uint32_t)count;
    return fast_prepare_layers(rank) || PyErr_NoMemory();
}

static bool take_constants(struct fast_rank *rank, PyObject *given)
{
    struct fast_constants *of = &rank->constants;
    long long timeout_ns;
    if (!PyArg_ParseTuple(given, "IIIILIBB;there are eight constants", &of->mtu_bytes, &of->window_packets,
                          &of->ack_every_packets, &of->burst_packets, &timeout_ns, &of->frame_bytes, &of->data_tos,
                          &of->control_tos))
        return false;
    of->timeout_ns = timeout_ns;
    return (of->mtu_bytes && of->window_packets && of->burst_packets) || refuse("a constant is 0");
}

static bool take_numbers(struct fast_rank *rank, const char *numbers)
{
    rank->type = strcmp(numbers, "f4") == 0 ? FAST_FLOATS : strcmp(numbers, "i4") == 0 ? FAST_WORDS : FAST_NO_NUMBERS;
    if (rank->type == FAST_NO_NUMBERS ? *numbers : rank->element_bytes != 4)
        return refuse("numbers are of f4, i4 or none");
    return true;
}

static int fast_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"fabric", "socket", "pairs", "layers", "buffer", "constants", "numbers", "element_bytes", "stride",
                            "ended", "odd", NULL};
    struct fast_object *object = (struct fast_object *)self;
    struct fast_rank *rank = &object->rank;
    PyObject *fabric, *number, *pairs, *layers, *buffer, *constants, *ended, *odd;
    const char *numbers;
    if (object->fabric)
        return refuse("it is made once") ? 0 : -1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O$O!O!OO!sIIOO:FastPath", names, fabric_type, &fabric, &number, &PyList_Type, &pairs,
                                     &PyList_Type, &layers, &buffer, &PyTuple_Type, &constants, &numbers,
                                     &rank->element_bytes, &rank->stride, &ended, &odd))
        return -1;
    struct socket_object *socket = fabric_type_socket(fabric, number);
    if (!socket)
        return -1;
    object->fabric = Py_NewRef(fabric);
    object->ended = Py_NewRef(ended);
    object->odd = Py_NewRef(odd);
    object->socket = socket;
    rank->socket = &socket->socket;
    rank->due_ns = EVENTQ_NEVER;
    rank->received_ns = -1;
    if (!socket->socket.coalesces || socket->fast || !rank->element_bytes || !rank->stride)
        return refuse("it needs a socket of RoCE that has none, elements and a stride") ? 0 : -1;
    if (!take_numbers(rank, numbers) || !take_constants(rank, constants) || !take_pairs(rank, pairs) ||
        !take_layers(object, layers))
        return -1;
    PyObject *nothing = PyTuple_New(0); /* a run's headers are not kept: they are read from its packets */
    object->sent = nothing ? runs_new(socket->owner, nothing, buffer) : NULL;
    Py_XDECREF(nothing);
    if (!object->sent)
        return -1;
    rank->payload = &object->sent->payload;
    socket->fast = object;
    socket->socket.due.serve = serve_fast;
    return 0;
}

/* --- methods ------------------------------------------------------------------------------------------------------- */

static PyObject *py_prepare(PyObject *self, PyObject *argument)
{
    long long first_tag = PyLong_AsLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    fast_prepare(rank_of(self), first_tag);
    Py_RETURN_NONE;
}

static PyObject *py_wake(PyObject *self, PyObject *argument)
{
    long long now_ns = PyLong_AsLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    return take_turn((struct fast_object *)self, NULL, now_ns) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_start(PyObject *self, PyObject *argument)
{
    long long now_ns = PyLong_AsLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    fast_start(rank_of(self), now_ns);
    return py_wake(self, argument);
}

static PyObject *py_idle(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(fast_idle(rank_of(self)));
}

static PyObject *py_counters(PyObject *self, PyObject *unused)
{
    const struct fast_counts *of = &rank_of(self)->counts;
    (void)unused;
    return Py_BuildValue("(KKKKK)", of->sent_packets, of->received_packets, of->sent_bytes, of->received_bytes,
                         of->frame_bytes);
}

static PyObject *py_progress(PyObject *self, PyObject *unused)
{
    const struct fast_rank *of = rank_of(self);
    (void)unused;
    PyObject *received = of->received_ns < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(of->received_ns);
    return received ? Py_BuildValue("(LNK)", (long long)of->progress_ns, received, of->received_bytes) : NULL;
}

/* The layer that a number names; NULL: an exception tells that there is none. */
static const struct fast_layer *layer_at(PyObject *self, PyObject *number)
{
    const struct fast_rank *of = rank_of(self);
    size_t index = PyLong_AsSize_t(number);
    if (index < of->layer_count)
        return &of->layers[index];
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_IndexError, "there is no layer %zu", index);
    return NULL;
}

static PyObject *py_states(PyObject *self, PyObject *argument)
{
    const struct fast_layer *layer = layer_at(self, argument);
    return layer ? PyBytes_FromStringAndSize((const char *)layer->states, layer->operations) : NULL;
}

static PyObject *py_waits(PyObject *self, PyObject *argument)
{
    const struct fast_layer *layer = layer_at(self, argument);
    PyObject *list = layer ? PyList_New(layer->operations) : NULL;
    for (uint32_t i = 0; list && i < layer->operations; i++) {
        PyObject *number = PyLong_FromLong(layer->waits[i]);
        if (number)
            PyList_SET_ITEM(list, i, number);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *numbers_of(const struct fast_queue *queue)
{
    PyObject *list = PyList_New(queue->count);
    for (uint32_t i = 0; list && i < queue->count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(queue->ids[(queue->first + i) & (queue->capacity - 1)]);
        if (number)
            PyList_SET_ITEM(list, i, number);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *instant(int64_t at_ns)
{
    return at_ns == EVENTQ_NEVER ? Py_NewRef(Py_None) : PyLong_FromLongLong(at_ns);
}

static PyObject *pair_told(const struct fast_pair *pair)
{
    PyObject *incoming = pair->incoming == FAST_NONE
                             ? Py_NewRef(Py_None)
                             : Py_BuildValue("(kK)", (unsigned long)pair->incoming, (unsigned long long)pair->filled);
    PyObject *timer = instant(pair->timer_ns), *messages = numbers_of(&pair->messages);
    if (!incoming || !timer || !messages) {
        Py_XDECREF(incoming);
        Py_XDECREF(timer);
        Py_XDECREF(messages);
        return NULL;
    }
    return Py_BuildValue("(I(LLLLNNLLLO)(LIINO))", pair->peer, (long long)pair->head_first, (long long)pair->unacknowledged,
                         (long long)pair->next_packet, (long long)pair->asked, timer, messages, (long long)pair->open_ns,
                         (long long)pair->departed_ns, (long long)pair->departed_bits, pair->waiting ? Py_True : Py_False,
                         (long long)pair->expected, pair->completed, pair->since, incoming,
                         pair->speaks ? Py_True : Py_False);
}

static PyObject *py_pairs(PyObject *self, PyObject *unused)
{
    const struct fast_rank *of = rank_of(self);
    PyObject *list = PyList_New(0);
    (void)unused;
    for (uint32_t i = 0; list && i < of->pair_count; i++) {
        PyObject *told = pair_told(&of->pairs[i]);
        if (!told || PyList_Append(list, told) != 0)
            Py_CLEAR(list);
        Py_XDECREF(told);
    }
    return list;
}

static PyObject *py_active(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    (void)unused;
    for (const struct fast_pair *pair = rank_of(self)->first; list && pair; pair = pair->next) {
        PyObject *peer = PyLong_FromUnsignedLong(pair->peer);
        if (!peer || PyList_Append(list, peer) != 0)
            Py_CLEAR(list);
        Py_XDECREF(peer);
    }
    return list;
}

static PyObject *py_happened(PyObject *self, PyObject *unused)
{
    (void)unused;
    return numbers_of(&rank_of(self)->events);
}

static PyObject *py_instants(PyObject *self, PyObject *unused)
{
    const struct fast_rank *of = rank_of(self);
    (void)unused;
    PyObject *due = instant(of->due_ns);
    return due ? Py_BuildValue("(LN)", (long long)of->free_ns, due) : NULL;
}

static PyObject *py_retire(PyObject *self, PyObject *unused)
{
    (void)unused;
    detach((struct fast_object *)self);
    Py_RETURN_NONE;
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

static int fast_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct fast_object *object = (struct fast_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(object->fabric);
    Py_VISIT(object->ended);
    Py_VISIT(object->odd);
    return 0;
}

static int fast_clear(PyObject *self)
{
    struct fast_object *object = (struct fast_object *)self;
    detach(object);
    Py_CLEAR(object->ended);
    Py_CLEAR(object->odd);
    return 0;
}

static void fast_dealloc(PyObject *self)
{
    struct fast_object *object = (struct fast_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    fast_clear(self);
    if (object->sent)
        payload_drop(&object->sent->payload);
    fast_destroy(&object->rank);
    for (size_t i = 0; i < object->column_count; i++)
        PyBuffer_Release(&object->columns[i]);
    free(object->columns);
    Py_CLEAR(object->fabric); /* the last: what is above lies in it */
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"prepare", py_prepare, METH_O, NULL},
    {"start", py_start, METH_O, NULL},
    {"wake", py_wake, METH_O, NULL},
    {"idle", py_idle, METH_NOARGS, NULL},
    {"counters", py_counters, METH_NOARGS, NULL},
    {"progress", py_progress, METH_NOARGS, NULL},
    {"states", py_states, METH_O, NULL},
    {"waits", py_waits, METH_O, NULL},
    {"pairs", py_pairs, METH_NOARGS, NULL},
    {"active", py_active, METH_NOARGS, NULL},
    {"happened", py_happened, METH_NOARGS, NULL},
    {"instants", py_instants, METH_NOARGS, NULL},
    {"retire", py_retire, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, fast_init},
    {Py_tp_dealloc, fast_dealloc},
    {Py_tp_traverse, fast_traverse},
    {Py_tp_clear, fast_clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec fast_type_spec = {
    .name = "testbed.netcore._core.FastPath",
    .basicsize = sizeof(struct fast_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
