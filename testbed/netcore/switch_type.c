/* Methods of the Python type Fabric about switches, packets by hand and the clock. What they do is told in __init__.pyi. */
#include "fabric_type.h"

#include <errno.h>
#include <string.h>

static struct p4_switch *switch_at(struct fabric *fabric, Py_ssize_t index)
{
    if (index >= 0 && (size_t)index < fabric->switch_count)
        return fabric->switches[index];
    PyErr_Format(PyExc_IndexError, "there is no switch %zd", index);
    return NULL;
}

/* A switch from its number alone. */
static struct p4_switch *switch_of(PyObject *self, PyObject *argument)
{
    Py_ssize_t index = PyLong_AsSsize_t(argument);
    return index == -1 && PyErr_Occurred() ? NULL : switch_at(fabric_of(self), index);
}

static bool refuse_running(struct fabric *fabric, const char *what)
{
    if (fabric->running)
        PyErr_Format(PyExc_RuntimeError, "%s before running", what);
    return fabric->running;
}

/* --- building ------------------------------------------------------------------------------------------------------ */

PyObject *py_add_memory_port(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (refuse_running(fabric_of(self), "ports are added"))
        return NULL;
    struct fabric_port *port = fabric_add_memory_port(fabric_of(self));
    return port ? PyLong_FromUnsignedLong(port->index) : PyErr_SetFromErrno(PyExc_OSError);
}

PyObject *py_add_switch(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"program", "seed", "dilation", NULL};
    unsigned long long program, seed;
    unsigned int dilation = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "KK|$I:add_switch", names, &program, &seed, &dilation))
        return NULL;
    if (dilation < 1)
        return PyErr_Format(PyExc_ValueError, "a dilation is at least 1");
    if (refuse_running(fabric_of(self), "switches are added"))
        return NULL;
    const struct p4_program *of_abi = (const struct p4_program *)(uintptr_t)program;
    struct p4_switch *of = fabric_add_switch(fabric_of(self), of_abi, seed, dilation);
    if (!of && errno == EPROTO)
        return PyErr_Format(PyExc_ValueError, "the program is of another ABI version than %d", P4_ABI_VERSION);
    return of ? PyLong_FromUnsignedLong(of->number) : PyErr_NoMemory();
}

PyObject *py_switch_instance(PyObject *self, PyObject *argument)
{
    struct p4_switch *of = switch_of(self, argument);
    return of ? PyLong_FromVoidPtr(of->now->instance) : NULL;
}

PyObject *py_load_program(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "program", "seed", NULL};
    unsigned long long program, seed;
    Py_ssize_t index;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nKK:load_program", names, &index, &program, &seed))
        return NULL;
    struct p4_switch *of = switch_at(fabric_of(self), index);
    const struct p4_program *of_abi = (const struct p4_program *)(uintptr_t)program;
    if (of && of_abi->abi != P4_ABI_VERSION)
        return PyErr_Format(PyExc_ValueError, "the program is of another ABI version than %d", P4_ABI_VERSION);
    if (of && !switch_load(of, of_abi, seed))
        return PyErr_NoMemory();
    return of ? PyLong_FromVoidPtr(of->loaded->instance) : NULL;
}

struct swapping {
    struct p4_switch *of;
    bool done;
};

static void apply_swap(struct fabric *fabric, void *argument)
{
    struct swapping *swapping = argument;
    (void)fabric;
    swapping->done = switch_swap(swapping->of);
}

PyObject *py_swap_program(PyObject *self, PyObject *argument)
{
    struct swapping swapping = {.of = switch_of(self, argument)};
    if (!swapping.of || !fabric_type_call(fabric_of(self), apply_swap, &swapping))
        return NULL;
    return swapping.done ? Py_NewRef(Py_None) : PyErr_Format(PyExc_RuntimeError, "no program is loaded");
}

PyObject *py_probe_program(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "port", "frame", NULL};
    Py_ssize_t index;
    unsigned int port;
    Py_buffer frame;
    struct p4_verdict verdict;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nIy*:probe_program", names, &index, &port, &frame))
        return NULL;
    struct p4_switch *of = switch_at(fabric_of(self), index);
    PyObject *result = NULL;
    if (of && !of->loaded)
        PyErr_Format(PyExc_RuntimeError, "no program is loaded");
    else if (of && !switch_probe(of, port, frame.buf, (size_t)frame.len, fabric_now_ns(fabric_of(self)), &verdict))
        PyErr_NoMemory();
    else if (of)
        result = verdict.fate == P4_DROP || verdict.fate == P4_FAILED
                     ? Py_NewRef(Py_None)
                     : PyLong_FromLong(verdict.fate == P4_UNICAST ? (long)verdict.port : -1);
    PyBuffer_Release(&frame);
    return result;
}

PyObject *py_add_switch_port(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "number", NULL};
    Py_ssize_t index;
    unsigned int number;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nI:add_switch_port", names, &index, &number))
        return NULL;
    struct p4_switch *of = switch_at(fabric_of(self), index);
    if (!of || refuse_running(fabric_of(self), "ports are added"))
        return NULL;
    if (number >= SWITCH_PORTS || of->ports[number])
        return PyErr_Format(PyExc_ValueError, "a switch's ports are numbered below %d, each once", SWITCH_PORTS);
    struct fabric_port *port = fabric_add_switch_port(fabric_of(self), of, number);
    return port ? PyLong_FromUnsignedLong(port->index) : PyErr_SetFromErrno(PyExc_OSError);
}

/* --- settings ------------------------------------------------------------------------------------------------------ */

struct settings {
    struct p4_switch *of;
    bool weighted;
    uint32_t weights[PACKET_PRIORITIES];
    struct buffer_options options;
    bool done;
};

static void apply_settings(struct fabric *fabric, void *argument)
{
    struct settings *settings = argument;
    (void)fabric;
    settings->done = switch_configure(settings->of, &settings->options, settings->weighted ? settings->weights : NULL);
}

static bool read_weights(PyObject *scheduler, struct settings *settings)
{
    if (PyUnicode_Check(scheduler) && PyUnicode_CompareWithASCIIString(scheduler, "strict") == 0)
        return true;
    settings->weighted = true;
    PyObject *weights = PyUnicode_Check(scheduler) ? NULL : PySequence_Fast(scheduler, "scheduler is strict or weights");
    bool valid = weights && PySequence_Fast_GET_SIZE(weights) == PACKET_PRIORITIES;
    for (Py_ssize_t i = 0; valid && i < PACKET_PRIORITIES; i++) {
        long weight = PyLong_AsLong(PySequence_Fast_GET_ITEM(weights, i));
        valid = weight >= 1 && weight <= UINT16_MAX;
        settings->weights[i] = (uint32_t)weight;
    }
    Py_XDECREF(weights);
    if (!valid && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "scheduler is \"strict\" or %d weights from 1 to %d", PACKET_PRIORITIES, UINT16_MAX);
    return valid;
}

static bool read_buffer(PyObject *buffer, struct buffer_options *options)
{
    unsigned long long shared, headroom;
    if (buffer == Py_None)
        return true;
    if (!PyArg_ParseTuple(buffer, "KdK;buffer is (shared bytes, alpha, headroom bytes)", &shared, &options->alpha, &headroom))
        return false;
    options->dynamic = true;
    options->shared_bytes = shared;
    options->headroom_bytes = headroom;
    return true;
}

static bool read_pfc(PyObject *pfc, struct buffer_options *options)
{
    unsigned long long xoff, xon;
    unsigned int priorities;
    if (pfc == Py_None)
        return true;
    if (!PyArg_ParseTuple(pfc, "IKK;pfc is (bit mask of priorities, xoff bytes, xon bytes)", &priorities, &xoff, &xon))
        return false;
    if (priorities >> PACKET_PRIORITIES || xon > xoff) {
        PyErr_Format(PyExc_ValueError, "pfc's priorities are a mask of %d bits, and xon is not above xoff", PACKET_PRIORITIES);
        return false;
    }
    options->pfc_priorities = (uint8_t)priorities;
    options->xoff_bytes = xoff;
    options->xon_bytes = xon;
    return true;
}

PyObject *py_configure_switch(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "scheduler", "buffer", "pfc", "trim", NULL};
    Py_ssize_t index;
    PyObject *scheduler = NULL, *buffer = Py_None, *pfc = Py_None;
    struct settings settings = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "n|$OOOI:configure_switch", names, &index, &scheduler, &buffer, &pfc,
                                     &settings.options.trim_bytes))
        return NULL;
    settings.of = switch_at(fabric_of(self), index);
    if (!settings.of || (scheduler && !read_weights(scheduler, &settings)) || !read_buffer(buffer, &settings.options) ||
        !read_pfc(pfc, &settings.options) || !fabric_type_call(fabric_of(self), apply_settings, &settings))
        return NULL;
    return settings.done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static void apply_nics(struct fabric *fabric, void *argument)
{
    fabric->nic_by_dscp = *(const int *)argument;
}

PyObject *py_nic_priorities(PyObject *self, PyObject *argument)
{
    int by_dscp = PyObject_IsTrue(argument);
    if (by_dscp < 0 || !fabric_type_call(fabric_of(self), apply_nics, &by_dscp))
        return NULL;
    Py_RETURN_NONE;
}

struct replica_change {
    struct replica_lists *lists;
    uint16_t number;
    struct replica *replicas;
    uint32_t count;
    bool done;
};

static void apply_replicas(struct fabric *fabric, void *argument)
{
    struct replica_change *change = argument;
    (void)fabric;
    change->done = replicas_set(change->lists, change->number, change->replicas, change->count);
}

static PyObject *set_replicas(PyObject *self, PyObject *args, PyObject *keywords, bool session)
{
    static char *group_names[] = {"switch", "group", "replicas", NULL};
    static char *session_names[] = {"switch", "session", "replicas", NULL};
    Py_ssize_t index;
    struct replica_change change = {0};
    PyObject *given;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nHO:replicas", session ? session_names : group_names, &index,
                                     &change.number, &given))
        return NULL;
    struct p4_switch *of = switch_at(fabric_of(self), index);
    PyObject *list = of ? PySequence_Fast(given, "replicas are a sequence of (port, replication id)") : NULL;
    if (!list)
        return NULL;
    change.lists = session ? &of->sessions : &of->groups;
    change.count = (uint32_t)PySequence_Fast_GET_SIZE(list);
    change.replicas = PyMem_Calloc(change.count + 1, sizeof *change.replicas);
    bool valid = change.replicas;
    for (uint32_t i = 0; valid && i < change.count; i++)
        valid = PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list, i), "IH;a replica is (port, replication id)",
                                 &change.replicas[i].port, &change.replicas[i].rid);
    valid = valid && fabric_type_call(fabric_of(self), apply_replicas, &change);
    if (!PyErr_Occurred() && !change.done)
        PyErr_NoMemory();
    PyMem_Free(change.replicas);
    Py_DECREF(list);
    return valid && change.done ? Py_NewRef(Py_None) : NULL;
}

PyObject *py_set_group(PyObject *self, PyObject *args, PyObject *keywords)
{
    return set_replicas(self, args, keywords, false);
}

PyObject *py_set_session(PyObject *self, PyObject *args, PyObject *keywords)
{
    return set_replicas(self, args, keywords, true);
}

struct depth_change {
    struct p4_switch *of;
    uint32_t depth;
};

static void apply_depth(struct fabric *fabric, void *argument)
{
    const struct depth_change *change = argument;
    (void)fabric;
    change->of->told_depth = change->depth;
}

PyObject *py_set_depth(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "depth_bytes", NULL};
    Py_ssize_t index;
    PyObject *depth;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nO:set_depth", names, &index, &depth))
        return NULL;
    struct depth_change change = {switch_at(fabric_of(self), index), SWITCH_TRUE_DEPTH};
    if (!change.of)
        return NULL;
    if (depth != Py_None) {
        unsigned long value = PyLong_AsUnsignedLong(depth);
        if (PyErr_Occurred())
            return NULL;
        if (value >= SWITCH_TRUE_DEPTH)
            return PyErr_Format(PyExc_ValueError, "a depth is below 2^32 - 1");
        change.depth = (uint32_t)value;
    }
    return fabric_type_call(fabric_of(self), apply_depth, &change) ? Py_NewRef(Py_None) : NULL;
}

/* --- holding ------------------------------------------------------------------------------------------------------- */

PyObject *py_hold(PyObject *self, PyObject *unused)
{
    int error;
    (void)unused;
    if (fabric_of(self)->refers) {
        error = fabric_hold(fabric_of(self));
    } else {
        Py_BEGIN_ALLOW_THREADS
        error = fabric_hold(fabric_of(self));
        Py_END_ALLOW_THREADS
    }
    if (error == EDEADLK)
        return PyErr_Format(PyExc_RuntimeError, "this thread holds the fabric already");
    if (error)
        return PyErr_Format(PyExc_RuntimeError, "the fabric did not come to rest within %d s", FABRIC_HOLD_LIMIT_S);
    Py_RETURN_NONE;
}

PyObject *py_release(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (fabric_release(fabric_of(self)) != 0)
        return PyErr_Format(PyExc_RuntimeError, "this thread does not hold the fabric");
    Py_RETURN_NONE;
}

/* --- packets by hand ----------------------------------------------------------------------------------------------- */

struct entrance {
    void (*enter)(struct entrance *entrance, struct packet *packet, int64_t now_ns);
    struct p4_switch *of;
    struct fabric_port *port;
    uint32_t number;
    Py_buffer frame;
    bool done;
};

static void apply_entrance(struct fabric *fabric, void *argument)
{
    struct entrance *entrance = argument;
    int64_t now_ns = fabric_catch_up(fabric);
    struct packet *packet = fabric_packet(fabric, entrance->frame.buf, (size_t)entrance->frame.len);
    entrance->done = packet;
    if (packet)
        entrance->enter(entrance, packet, now_ns);
}

/* Let a frame in, and give its buffer back. */
static PyObject *let_in(PyObject *self, struct entrance *entrance)
{
    if (!PyErr_Occurred() && entrance->frame.len > FRAME_MAX_BYTES)
        PyErr_Format(PyExc_ValueError, "a frame has at most %d bytes", FRAME_MAX_BYTES);
    if (!PyErr_Occurred() && fabric_type_call(fabric_of(self), apply_entrance, entrance) && !entrance->done)
        PyErr_NoMemory();
    PyBuffer_Release(&entrance->frame);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void enter_ingress(struct entrance *entrance, struct packet *packet, int64_t now_ns)
{
    switch_inject(entrance->of, entrance->number, packet, now_ns);
}

static void enter_queue(struct entrance *entrance, struct packet *packet, int64_t now_ns)
{
    switch_send_out(entrance->of->ports[entrance->number], packet, now_ns);
}

static void enter_link(struct entrance *entrance, struct packet *packet, int64_t now_ns)
{
    (void)now_ns;
    fabric_send(entrance->port, packet);
}

PyObject *py_inject(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "port", "frame", NULL};
    struct entrance entrance = {.enter = enter_ingress};
    Py_ssize_t index;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nIy*:inject", names, &index, &entrance.number, &entrance.frame))
        return NULL;
    entrance.of = switch_at(fabric_of(self), index);
    return let_in(self, &entrance);
}

PyObject *py_send_out(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"switch", "port", "frame", NULL};
    struct entrance entrance = {.enter = enter_queue};
    Py_ssize_t index;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nIy*:send_out", names, &index, &entrance.number, &entrance.frame))
        return NULL;
    entrance.of = switch_at(fabric_of(self), index);
    const struct switch_port *port = entrance.of && entrance.number < SWITCH_PORTS ? entrance.of->ports[entrance.number] : NULL;
    if (entrance.of && (!port || !port->egress))
        PyErr_Format(PyExc_KeyError, "switch %zd has no port %u with a link", index, entrance.number);
    return let_in(self, &entrance);
}

PyObject *py_send(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"port", "frame", NULL};
    struct entrance entrance = {.enter = enter_link};
    Py_ssize_t index;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ny*:send", names, &index, &entrance.frame))
        return NULL;
    entrance.port = fabric_type_port(fabric_of(self), index);
    if (entrance.port && (entrance.port->kind != FABRIC_MEMORY || !entrance.port->out))
        PyErr_Format(PyExc_ValueError, "port %zd is no memory port with a link", index);
    return let_in(self, &entrance);
}

struct advancing {
    int64_t until_ns, from_ns;
    bool held;
};

static void apply_advance(struct fabric *fabric, void *argument)
{
    struct advancing *advancing = argument;
    advancing->held = fabric->held;
    advancing->from_ns = fabric->virtual_ns;
    if (!advancing->held && advancing->until_ns >= advancing->from_ns)
        fabric_advance(fabric, advancing->until_ns);
}

PyObject *py_advance(PyObject *self, PyObject *argument)
{
    struct advancing advancing = {.until_ns = PyLong_AsLongLong(argument)};
    bool is_virtual = fabric_of(self)->is_virtual;
    if (fabric_of(self)->refers || fabric_of(self)->playing || ((struct fabric_object *)self)->calls)
        return PyErr_Format(PyExc_RuntimeError, "a fabric that has sockets or functions to call is played, not advanced");
    if (PyErr_Occurred() || (is_virtual && !fabric_type_call(fabric_of(self), apply_advance, &advancing)))
        return NULL;
    if (!is_virtual || advancing.held)
        return PyErr_Format(PyExc_RuntimeError, "only a fabric under a virtual clock that is not held is advanced");
    if (advancing.until_ns < advancing.from_ns)
        return PyErr_Format(PyExc_ValueError, "the clock is at %lld ns already", (long long)advancing.from_ns);
    Py_RETURN_NONE;
}

/* --- what is kept to be fetched ------------------------------------------------------------------------------------ */

struct fetching {
    struct records *from;
    struct record *first;
};

static void apply_fetching(struct fabric *fabric, void *argument)
{
    struct fetching *fetching = argument;
    (void)fabric;
    fetching->first = records_take(fetching->from);
}

/* Append records to a list, each as `make` has it, and free them. */
static bool fetch(PyObject *self, struct records *from, PyObject *list, PyObject *(*make)(const struct record *record))
{
    struct fetching fetching = {.from = from};
    if (!fabric_type_call(fabric_of(self), apply_fetching, &fetching))
        return false;
    for (const struct record *record = fetching.first; record && !PyErr_Occurred(); record = record->next) {
        PyObject *item = make(record);
        if (item)
            PyList_Append(list, item);
        Py_XDECREF(item);
    }
    records_free(fetching.first);
    return !PyErr_Occurred();
}

static PyObject *fetched(PyObject *self, struct records *from, PyObject *(*make)(const struct record *record))
{
    PyObject *list = PyList_New(0);
    if (list && !fetch(self, from, list, make))
        Py_CLEAR(list);
    return list;
}

static PyObject *as_frame(const struct record *record)
{
    return Py_BuildValue("KLy#", record->about[0], (long long)record->about[1], record->bytes, (Py_ssize_t)record->length);
}

static PyObject *as_digest(const struct record *record)
{
    return Py_BuildValue("Ky#", record->about[0], record->bytes, (Py_ssize_t)record->length);
}

static PyObject *as_message(const struct record *record)
{
    return PyUnicode_DecodeUTF8((const char *)record->bytes, (Py_ssize_t)record->length, "replace");
}

PyObject *py_taken(PyObject *self, PyObject *unused)
{
    (void)unused;
    return fetched(self, &fabric_of(self)->taken, as_frame);
}

PyObject *py_punted(PyObject *self, PyObject *unused)
{
    struct fabric *fabric = fabric_of(self);
    PyObject *list = PyList_New(0);
    (void)unused;
    for (size_t i = 0; list && i < fabric->switch_count; i++)
        if (!fetch(self, &fabric->switches[i]->punts, list, as_frame))
            Py_CLEAR(list);
    return list;
}

PyObject *py_digests(PyObject *self, PyObject *argument)
{
    struct p4_switch *of = switch_of(self, argument);
    return of ? fetched(self, &of->digests, as_digest) : NULL;
}

PyObject *py_messages(PyObject *self, PyObject *argument)
{
    struct p4_switch *of = switch_of(self, argument);
    return of ? fetched(self, &of->messages, as_message) : NULL;
}

/* --- counters ------------------------------------------------------------------------------------------------------ */

/* What is counted of a class of packets. */
struct switch_class {
    struct switch_counts counts;
    uint64_t trimmed; /* at all its ports */
};

struct switch_reading {
    const struct p4_switch *of;
    enum link_class asked;
    struct switch_class all, job;
    uint64_t digests, lost_digests, lost_messages;
};

static struct switch_class read_class(const struct p4_switch *of, enum link_class class)
{
    struct switch_class reading = {.trimmed = 0};
    link_sum(&of->counts[0].received, sizeof reading.counts / sizeof(uint64_t), class, &reading.counts.received);
    for (uint32_t i = 0; i < SWITCH_PORTS; i++)
        if (of->ports[i] && of->ports[i]->egress)
            reading.trimmed += link_counts_of(of->ports[i]->egress->link, class).trimmed;
    return reading;
}

static void read_switch(struct fabric *fabric, void *argument)
{
    struct switch_reading *reading = argument;
    (void)fabric;
    reading->all = read_class(reading->of, LINK_ALL);
    reading->job = read_class(reading->of, reading->asked);
    reading->digests = reading->of->digest_count;
    reading->lost_digests = reading->of->lost_digests;
    reading->lost_messages = reading->of->lost_messages;
}

PyObject *py_switch_counters(PyObject *self, PyObject *args)
{
    PyObject *number, *of_job = Py_None;
    enum link_class class;
    if (!PyArg_ParseTuple(args, "O|O:switch_counters", &number, &of_job) || !fabric_type_class(of_job, &class))
        return NULL;
    struct switch_reading reading = {.of = switch_of(self, number), .asked = class};
    if (!reading.of || !fabric_type_call(fabric_of(self), read_switch, &reading))
        return NULL;
    const struct switch_counts *all = &reading.all.counts, *job = &reading.job.counts;
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "received", all->received, "injected", all->injected,
        "duplicated", all->duplicated, "dropped_program", all->dropped_program, "dropped_assert", all->dropped_assert,
        "dropped_port", all->dropped_port, "dropped_passes", all->dropped_passes, "dropped_memory", all->dropped_memory,
        "punted", all->punted, "dropped_punt", all->dropped_punt, "trimmed", reading.all.trimmed, "job_received",
        job->received, "job_injected", job->injected, "job_duplicated", job->duplicated, "job_dropped_program",
        job->dropped_program, "job_dropped_assert", job->dropped_assert, "job_dropped_port", job->dropped_port,
        "job_dropped_passes", job->dropped_passes, "job_dropped_memory", job->dropped_memory, "job_punted", job->punted,
        "job_dropped_punt", job->dropped_punt, "job_trimmed", reading.job.trimmed, "digests", reading.digests,
        "lost_digests", reading.lost_digests, "lost_messages", reading.lost_messages);
}
