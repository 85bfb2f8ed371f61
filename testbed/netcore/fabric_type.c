/* The Python type Fabric. What its methods do is told in __init__.pyi. */
#include "fabric_type.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool fabric_type_call(struct fabric *fabric, void (*function)(struct fabric *fabric, void *argument), void *argument)
{
    bool done;
    if (fabric->refers) { /* what is done may drop references to objects of Python's */
        done = fabric_call(fabric, function, argument);
    } else {
        Py_BEGIN_ALLOW_THREADS
        done = fabric_call(fabric, function, argument);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        PyErr_Format(PyExc_RuntimeError, "for %d s another thread held the fabric or its loop was stuck", FABRIC_HOLD_LIMIT_S);
    return done;
}

static PyObject *fabric_create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"seed", "virtual", NULL};
    unsigned long long seed;
    int is_virtual = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "K|$p:Fabric", names, &seed, &is_virtual))
        return NULL;
    struct fabric_object *self = (struct fabric_object *)type->tp_alloc(type, 0);
    if (self && !(self->fabric = fabric_new(seed, is_virtual))) {
        Py_DECREF(self);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return (PyObject *)self;
}

static int fabric_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct fabric_object *object = (struct fabric_object *)self;
    Py_VISIT(Py_TYPE(self));
    int result = sockets_traverse(object, visit, arg);
    return result ? result : calls_traverse(object, visit, arg);
}

static int fabric_clear(PyObject *self)
{
    sockets_clear((struct fabric_object *)self);
    calls_clear((struct fabric_object *)self);
    return 0;
}

static void fabric_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    fabric_clear(self);
    if (fabric_of(self)) {
        sockets_free((struct fabric_object *)self);
        runs_free((struct fabric_object *)self);
        calls_free((struct fabric_object *)self);
        fabric_destroy(fabric_of(self));
    }
    type->tp_free(self);
    Py_DECREF(type);
}

bool fabric_type_virtual(PyObject *self)
{
    if (!fabric_of(self)->is_virtual)
        PyErr_Format(PyExc_RuntimeError, "only a fabric under a virtual clock has this");
    return fabric_of(self)->is_virtual;
}

struct fabric_port *fabric_type_port(struct fabric *fabric, Py_ssize_t index)
{
    if (index >= 0 && (size_t)index < fabric->port_count)
        return fabric->ports[index];
    PyErr_Format(PyExc_IndexError, "there is no port %zd", index);
    return NULL;
}

static struct link *link_at(struct fabric *fabric, Py_ssize_t index)
{
    if (index >= 0 && (size_t)index < fabric->link_count)
        return &fabric->links[index]->link;
    PyErr_Format(PyExc_IndexError, "there is no link %zd", index);
    return NULL;
}

static PyObject *add_port(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"fd", "virtio", "host", "switch", "spray", "join", NULL};
    int fd, virtio, host, spray, join;
    unsigned int switch_number;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i$ppIpp:add_port", names, &fd, &virtio, &host, &switch_number, &spray,
                                     &join))
        return NULL;
    struct fabric *fabric = fabric_of(self);
    struct port_options options = {.virtio = virtio, .spray = spray, .join = join && virtio};
    if (fabric->running)
        return PyErr_Format(PyExc_RuntimeError, "ports are added before running");
    if (!fabric_add_port(fabric, fd, options, host, switch_number))
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromSize_t(fabric->port_count - 1);
}

struct addressing {
    struct fabric_port *port;
    const uint8_t *mac;
    unsigned int ip;
    bool done;
};

static void apply_address(struct fabric *fabric, void *argument)
{
    struct addressing *addressing = argument;
    struct fabric_port *port = addressing->port;
    memcpy(port->mac, addressing->mac, sizeof port->mac);
    port->ip = addressing->ip;
    port->addressed = true;
    addressing->done = addresses_add(&fabric->addresses, port->ip, port->mac);
}

static PyObject *set_address(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"port", "mac", "ip", NULL};
    Py_ssize_t index, length;
    struct addressing addressing;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ny#I:set_address", names, &index, &addressing.mac, &length,
                                     &addressing.ip))
        return NULL;
    if (!(addressing.port = fabric_type_port(fabric_of(self), index)))
        return NULL;
    if (!addressing.port->host || length != sizeof addressing.port->mac)
        return PyErr_Format(PyExc_ValueError, "a host's port has a MAC address of %zu bytes", sizeof addressing.port->mac);
    if (!fabric_type_call(fabric_of(self), apply_address, &addressing))
        return NULL;
    return addressing.done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static PyObject *add_link(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"source", "target", "index", NULL};
    Py_ssize_t source, target;
    unsigned long long index;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nnK:add_link", names, &source, &target, &index))
        return NULL;
    struct fabric *fabric = fabric_of(self);
    struct fabric_port *from = fabric_type_port(fabric, source), *to = from ? fabric_type_port(fabric, target) : NULL;
    if (!to)
        return NULL;
    if (fabric->running || from->out)
        return PyErr_Format(PyExc_RuntimeError, "a port has one link, which is added before running");
    if (!fabric_add_link(fabric, from, to, index))
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromSize_t(fabric->link_count - 1);
}

struct link_change {
    struct link *link;
    struct link_parameters parameters;
    int up;
};

static void apply_parameters(struct fabric *fabric, void *argument)
{
    struct link_change *change = argument;
    fabric_catch_up(fabric); /* what was due before goes by what held then */
    change->parameters.never_drops = change->link->parameters.never_drops;
    link_set(change->link, &change->parameters);
}

static PyObject *set_link(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"link", "rate_bps", "delay_ns", "queue_bytes", "jitter_ns", "reorder",
                            "ecn",  "loss",     "duplicate", "corrupt",    NULL};
    Py_ssize_t index;
    unsigned long long rate_bps, queue_bytes, ecn_min = 0, ecn_max = 0;
    long long delay_ns, jitter_ns = 0;
    int reorder = 0;
    PyObject *ecn = Py_None, *loss = Py_None;
    double ecn_probability = 0, mean = 0, burst = 1, duplicate = 0, corrupt = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "n|$KLKLpOOdd:set_link", names, &index, &rate_bps, &delay_ns,
                                     &queue_bytes, &jitter_ns, &reorder, &ecn, &loss, &duplicate, &corrupt))
        return NULL;
    if (ecn != Py_None && !PyArg_ParseTuple(ecn, "KKd;ecn is (min bytes, max bytes, probability)", &ecn_min, &ecn_max,
                                            &ecn_probability))
        return NULL;
    if (loss != Py_None && !PyArg_ParseTuple(loss, "dd;loss is (mean, burst)", &mean, &burst))
        return NULL;
    struct link_change change = {.link = link_at(fabric_of(self), index)};
    if (!change.link)
        return NULL;
    if (delay_ns > LINK_LONGEST_NS || jitter_ns > LINK_LONGEST_NS)
        return PyErr_Format(PyExc_ValueError, "a delay and a jitter are at most %lld ns", (long long)LINK_LONGEST_NS);
    if (rate_bps == 0 || delay_ns < 0 || jitter_ns < 0 || ecn_min > ecn_max)
        return PyErr_Format(PyExc_ValueError, "a rate must be above 0, times not below 0, and ecn's min not above its max");
    change.parameters = (struct link_parameters){
        .rate_bps = rate_bps,
        .delay_ns = delay_ns,
        .jitter_ns = jitter_ns,
        .queue_bytes = queue_bytes,
        .reorder = reorder,
        .ecn = ecn != Py_None,
        .ecn_min_bytes = ecn_min,
        .ecn_max_bytes = ecn_max,
        .ecn_probability = ecn_probability,
        .duplicate = random_threshold(duplicate),
        .corrupt = random_threshold(corrupt),
    };
    if (!link_parameters_loss(&change.parameters, mean, burst))
        return PyErr_Format(PyExc_ValueError, "no loss has this mean and burst: mean <= burst / (burst + 1), burst >= 1");
    return fabric_type_call(fabric_of(self), apply_parameters, &change) ? Py_NewRef(Py_None) : NULL;
}

static void apply_up(struct fabric *fabric, void *argument)
{
    struct link_change *change = argument;
    link_set_up(change->link, change->up, fabric_catch_up(fabric)); /* what arrived before is not lost */
}

static PyObject *set_link_up(PyObject *self, PyObject *args)
{
    Py_ssize_t index;
    struct link_change change = {0};
    if (!PyArg_ParseTuple(args, "np:set_link_up", &index, &change.up))
        return NULL;
    if (!(change.link = link_at(fabric_of(self), index)))
        return NULL;
    return fabric_type_call(fabric_of(self), apply_up, &change) ? Py_NewRef(Py_None) : NULL;
}

static void apply_job(struct fabric *fabric, void *argument)
{
    const struct fabric_job *job = argument;
    memcpy(fabric->job.udp_ports, job->udp_ports, sizeof job->udp_ports);
    fabric->job.udp_port_count = job->udp_port_count;
    fabric->job.tcp_first = job->tcp_first;
    fabric->job.tcp_last = job->tcp_last;
}

static PyObject *set_job(PyObject *self, PyObject *args)
{
    struct fabric_job job = {0};
    PyObject *ports;
    if (!PyArg_ParseTuple(args, "O!HH:set_job", &PyTuple_Type, &ports, &job.tcp_first, &job.tcp_last))
        return NULL;
    job.udp_port_count = (size_t)PyTuple_GET_SIZE(ports);
    if (job.udp_port_count > LINK_JOBS)
        return PyErr_Format(PyExc_ValueError, "jobs have at most %d UDP ports", LINK_JOBS);
    for (size_t i = 0; i < job.udp_port_count; i++) {
        unsigned long port = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(ports, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return NULL;
        if (port > UINT16_MAX)
            return PyErr_Format(PyExc_ValueError, "%lu is no UDP port", port);
        job.udp_ports[i] = (uint16_t)port;
    }
    return fabric_type_call(fabric_of(self), apply_job, &job) ? Py_NewRef(Py_None) : NULL;
}

static int by_address(const void *one, const void *other)
{
    const struct fabric_job_host *a = one, *b = other;
    return (a->ip > b->ip) - (a->ip < b->ip);
}

static void apply_job_hosts(struct fabric *fabric, void *argument)
{
    struct fabric_job *job = argument, before = fabric->job;
    fabric->job.hosts = job->hosts;
    fabric->job.host_count = job->host_count;
    *job = before;
}

static PyObject *set_job_hosts(PyObject *self, PyObject *argument)
{
    PyObject *entries = PySequence_Fast(argument, "hosts are (address, job) each");
    if (!entries)
        return NULL;
    struct fabric_job job = {.host_count = (size_t)PySequence_Fast_GET_SIZE(entries)};
    job.hosts = calloc(job.host_count + 1, sizeof *job.hosts);
    bool right = job.hosts || PyErr_NoMemory();
    for (size_t i = 0; right && i < job.host_count; i++) {
        struct fabric_job_host *host = &job.hosts[i];
        right = PyArg_Parse(PySequence_Fast_GET_ITEM(entries, (Py_ssize_t)i), "(IB);a host is (address, job)", &host->ip,
                            &host->job);
        if (right && host->job >= LINK_JOBS) {
            PyErr_Format(PyExc_ValueError, "there are at most %d jobs", LINK_JOBS);
            right = false;
        }
    }
    if (right) {
        qsort(job.hosts, job.host_count, sizeof *job.hosts, by_address);
        right = fabric_type_call(fabric_of(self), apply_job_hosts, &job);
    }
    free(job.hosts); /* those before, or those that were not taken */
    Py_DECREF(entries);
    return right ? Py_NewRef(Py_None) : NULL;
}

/* --- counters ------------------------------------------------------------------------------------------------------ */

/* What is counted of a class of packets. */
struct class_reading {
    struct link_counts counts;
    uint64_t in_flight;
};

static struct class_reading read_class(const struct link *link, enum link_class class)
{
    return (struct class_reading){link_counts_of(link, class), link_in_flight(link, class)};
}

/* What a link has to tell, copied by the loop; percentiles take their time elsewhere. */
struct link_reading {
    struct class_reading all, asked;
    uint64_t max_queued_bytes;
    int64_t busy_ns;
    uint64_t measured_bps;
    uint64_t pool_exhausted;
    uint64_t malformed;
    uint64_t write_errors;
    int64_t paused_ns;
    uint64_t pfc_sent;
    struct histogram lateness;
};

/* Of all links. */
struct reading {
    enum link_class asked;
    struct link_reading *links;
};

static void read_links(struct fabric *fabric, void *argument)
{
    const struct reading *of = argument;
    for (size_t i = 0; i < fabric->link_count; i++) {
        const struct link *link = &fabric->links[i]->link;
        struct link_reading *reading = &of->links[i];
        reading->all = read_class(link, LINK_ALL);
        reading->asked = read_class(link, of->asked);
        reading->max_queued_bytes = link->max_queued_bytes;
        reading->busy_ns = link->busy_ns;
        reading->measured_bps = link_measured_bps(link);
        reading->pool_exhausted = link->pool_exhausted;
        reading->malformed = fabric->links[i]->source->port.malformed;
        reading->write_errors = fabric->links[i]->target->port.write_errors;
        if (link->source) {
            const struct egress *egress = &fabric->links[i]->source->egress;
            reading->paused_ns = egress_paused_ns(egress, fabric_now_ns(fabric));
            reading->pfc_sent = egress->pfc ? egress->pfc->sent : 0;
        }
        reading->lateness = link->lateness;
    }
}

static void apply_mark(struct fabric *fabric, void *argument)
{
    (void)argument;
    for (size_t i = 0; i < fabric->link_count; i++)
        link_mark(&fabric->links[i]->link);
    fabric->transit.taken = (struct histogram){0};
}

static void read_and_mark_links(struct fabric *fabric, void *argument)
{
    read_links(fabric, argument);
    apply_mark(fabric, NULL);
}

static PyObject *counts_dictionary(const struct class_reading *reading)
{
    const struct link_counts *of = &reading->counts;
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsK}", "entered", of->entered, "packets", of->packets, "bytes", of->bytes,
                         "dropped_queue", of->dropped_queue, "dropped_loss", of->dropped_loss, "dropped_down",
                         of->dropped_down, "corrupted", of->corrupted, "duplicated", of->duplicated, "ecn_marked",
                         of->ecn_marked, "strayed", of->strayed, "shortened", of->shortened, "in_flight",
                         reading->in_flight);
}

static PyObject *gauges_dictionary(const struct link_reading *of)
{
    return Py_BuildValue("{sKsLsKsLsLsKsKsKsLsK}", "max_queue_bytes", of->max_queued_bytes, "busy_ns", of->busy_ns,
                         "measured_bps", of->measured_bps, "late_p50_ns", histogram_percentile(&of->lateness, 50),
                         "late_p99_ns", histogram_percentile(&of->lateness, 99), "malformed", of->malformed,
                         "write_errors", of->write_errors, "pool_exhausted", of->pool_exhausted, "paused_ns", of->paused_ns,
                         "pfc_sent", of->pfc_sent);
}

bool fabric_type_class(PyObject *job, enum link_class *class)
{
    *class = LINK_JOB;
    if (job == Py_None)
        return true;
    long number = PyLong_AsLong(job);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (number < 0 || number >= LINK_JOBS) {
        PyErr_Format(PyExc_ValueError, "there is no job %ld: there are at most %d", number, LINK_JOBS);
        return false;
    }
    *class = (enum link_class)(LINK_ONE_JOB + number);
    return true;
}

static PyObject *counters(PyObject *self, PyObject *args)
{
    struct fabric *fabric = fabric_of(self);
    PyObject *job = Py_None;
    int marks = 0;
    enum link_class class;
    if (!PyArg_ParseTuple(args, "|Op:counters", &job, &marks) || !fabric_type_class(job, &class))
        return NULL;
    struct reading reading = {class, PyMem_Calloc(fabric->link_count + 1, sizeof *reading.links)};
    if (!reading.links)
        return PyErr_NoMemory();
    bool done = fabric_type_call(fabric, marks ? read_and_mark_links : read_links, &reading);
    PyObject *list = done ? PyList_New((Py_ssize_t)fabric->link_count) : NULL;
    for (size_t i = 0; list && i < fabric->link_count; i++) {
        const struct link_reading *of = &reading.links[i];
        PyObject *entry = Py_BuildValue("NNN", counts_dictionary(&of->all), counts_dictionary(&of->asked),
                                        gauges_dictionary(of));
        if (!entry)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, entry);
    }
    PyMem_Free(reading.links);
    return list;
}

struct count_reading {
    const struct link *link;
    struct class_reading all;
};

static void read_counts(struct fabric *fabric, void *argument)
{
    struct count_reading *reading = argument;
    (void)fabric;
    reading->all = read_class(reading->link, LINK_ALL);
}

static PyObject *link_counts(PyObject *self, PyObject *argument)
{
    Py_ssize_t index = PyLong_AsSsize_t(argument);
    if (index == -1 && PyErr_Occurred())
        return NULL;
    struct count_reading reading = {.link = link_at(fabric_of(self), index)};
    if (!reading.link || !fabric_type_call(fabric_of(self), read_counts, &reading))
        return NULL;
    return counts_dictionary(&reading.all);
}

struct pauses {
    struct pause {
        size_t link;
        unsigned priority;
        int64_t for_ns;
        uint64_t waiting_bytes;
    } *all;
    size_t count;
};

static void read_pauses(struct fabric *fabric, void *argument)
{
    struct pauses *pauses = argument;
    int64_t now_ns = fabric_catch_up(fabric);
    for (size_t i = 0; i < fabric->link_count; i++) {
        const struct egress *egress = &fabric->links[i]->source->egress;
        for (unsigned priority = 0; fabric->links[i]->link.source && priority < PACKET_PRIORITIES; priority++) {
            const struct egress_queue *queue = &egress->queues[priority];
            if (egress->paused >> priority & 1 && queue->paused_until_ns > now_ns)
                pauses->all[pauses->count++] =
                    (struct pause){i, priority, now_ns - queue->paused_since_ns, queue->bytes};
        }
    }
}

static PyObject *pauses(PyObject *self, PyObject *args)
{
    struct fabric *fabric = fabric_of(self);
    struct pauses found = {.all = PyMem_Calloc(fabric->link_count * PACKET_PRIORITIES + 1, sizeof *found.all)};
    (void)args;
    if (!found.all)
        return PyErr_NoMemory();
    bool done = fabric_type_call(fabric, read_pauses, &found);
    PyObject *list = done ? PyList_New(0) : NULL;
    for (size_t i = 0; list && i < found.count; i++) {
        const struct pause *of = &found.all[i];
        PyObject *entry = Py_BuildValue("nILK", (Py_ssize_t)of->link, of->priority, (long long)of->for_ns,
                                        (unsigned long long)of->waiting_bytes);
        if (!entry || PyList_Append(list, entry) != 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    PyMem_Free(found.all);
    return list;
}

static PyObject *mark(PyObject *self, PyObject *args)
{
    (void)args;
    return fabric_type_call(fabric_of(self), apply_mark, NULL) ? Py_NewRef(Py_None) : NULL;
}

struct transit_reading {
    int64_t p50_ns, p99_ns;
};

static void read_transit(struct fabric *fabric, void *argument)
{
    struct transit_reading *reading = argument;
    reading->p50_ns = histogram_percentile(&fabric->transit.taken, 50);
    reading->p99_ns = histogram_percentile(&fabric->transit.taken, 99);
}

static PyObject *transit(PyObject *self, PyObject *args)
{
    (void)args;
    struct transit_reading reading;
    if (!fabric_type_call(fabric_of(self), read_transit, &reading))
        return NULL;
    if (reading.p50_ns < 0)
        Py_RETURN_NONE;
    return Py_BuildValue("LL", (long long)reading.p50_ns, (long long)reading.p99_ns);
}

/* --- captures ------------------------------------------------------------------------------------------------------ */

struct capture_change {
    struct fabric_port *port;
    struct capture *capture; /* in: to be put in place; out: the one that was there */
};

static void swap_capture(struct fabric *fabric, void *argument)
{
    struct capture_change *change = argument;
    struct fabric_port *port = change->port;
    struct capture *before = port->port.capture;
    (void)fabric;
    port->port.capture = change->capture;
    if (port->kind == FABRIC_SWITCH)
        port->egress.capture = change->capture;
    change->capture = before;
}

/* Complete a capture's file; false: an exception tells of it, unless an earlier one does. */
static bool close_capture(struct capture *capture)
{
    PyObject *path = PyUnicode_DecodeFSDefault(capture_path(capture));
    bool complete = capture_close(capture);
    if (!complete && !PyErr_Occurred())
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    Py_XDECREF(path);
    return complete;
}

static PyObject *capture_start(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"port", "path", "snap_bytes", "interface", "comment", NULL};
    Py_ssize_t index;
    const char *path, *interface = "", *comment = "";
    unsigned int snap_bytes;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nsI|$ss:capture_start", names, &index, &path, &snap_bytes, &interface,
                                     &comment))
        return NULL;
    struct fabric_port *port = fabric_type_port(fabric_of(self), index);
    if (!port)
        return NULL;
    bool is_virtual = fabric_of(self)->is_virtual;
    struct capture_change change = {port, capture_open(path, snap_bytes, interface, comment, is_virtual)};
    if (!change.capture)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    bool done = fabric_type_call(fabric_of(self), swap_capture, &change);
    if ((change.capture && !close_capture(change.capture)) || !done)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *capture_stop(PyObject *self, PyObject *args)
{
    struct fabric *fabric = fabric_of(self);
    bool complete = true;
    (void)args;
    for (size_t i = 0; i < fabric->port_count; i++) {
        struct capture_change change = {fabric->ports[i], NULL};
        if (!fabric_type_call(fabric, swap_capture, &change))
            complete = false;
        if (change.capture && !close_capture(change.capture))
            complete = false;
    }
    return complete ? Py_NewRef(Py_None) : NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static PyObject *run(PyObject *self, PyObject *args)
{
    int error;
    (void)args;
    if (fabric_of(self)->is_virtual)
        return PyErr_Format(PyExc_RuntimeError, "a fabric under a virtual clock is advanced, not run");
    Py_BEGIN_ALLOW_THREADS
    error = fabric_run(fabric_of(self));
    Py_END_ALLOW_THREADS
    if (error == ETIMEDOUT)
        return PyErr_Format(PyExc_TimeoutError, "a thread that held the fabric did not release it within %d s",
                            FABRIC_HOLD_LIMIT_S);
    errno = error;
    return error ? PyErr_SetFromErrno(PyExc_OSError) : Py_NewRef(Py_None);
}

static PyObject *stop(PyObject *self, PyObject *args)
{
    (void)args;
    fabric_stop(fabric_of(self));
    Py_RETURN_NONE;
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"add_port", KEYWORDS(add_port), NULL},
    {"set_address", KEYWORDS(set_address), NULL},
    {"add_link", KEYWORDS(add_link), NULL},
    {"set_link", KEYWORDS(set_link), NULL},
    {"set_link_up", set_link_up, METH_VARARGS, NULL},
    {"set_job", set_job, METH_VARARGS, NULL},
    {"set_job_hosts", set_job_hosts, METH_O, NULL},
    {"counters", counters, METH_VARARGS, NULL},
    {"link_counts", link_counts, METH_O, NULL},
    {"pauses", pauses, METH_NOARGS, NULL},
    {"mark", mark, METH_NOARGS, NULL},
    {"transit", transit, METH_NOARGS, NULL},
    {"capture_start", KEYWORDS(capture_start), NULL},
    {"capture_stop", capture_stop, METH_NOARGS, NULL},
    {"add_memory_port", py_add_memory_port, METH_NOARGS, NULL},
    {"add_switch", KEYWORDS(py_add_switch), NULL},
    {"switch_instance", py_switch_instance, METH_O, NULL},
    {"load_program", KEYWORDS(py_load_program), NULL},
    {"swap_program", py_swap_program, METH_O, NULL},
    {"probe_program", KEYWORDS(py_probe_program), NULL},
    {"add_switch_port", KEYWORDS(py_add_switch_port), NULL},
    {"configure_switch", KEYWORDS(py_configure_switch), NULL},
    {"set_group", KEYWORDS(py_set_group), NULL},
    {"set_session", KEYWORDS(py_set_session), NULL},
    {"nic_priorities", py_nic_priorities, METH_O, NULL},
    {"hold", py_hold, METH_NOARGS, NULL},
    {"release", py_release, METH_NOARGS, NULL},
    {"inject", KEYWORDS(py_inject), NULL},
    {"send_out", KEYWORDS(py_send_out), NULL},
    {"send", KEYWORDS(py_send), NULL},
    {"taken", py_taken, METH_NOARGS, NULL},
    {"punted", py_punted, METH_NOARGS, NULL},
    {"digests", py_digests, METH_O, NULL},
    {"messages", py_messages, METH_O, NULL},
    {"set_depth", KEYWORDS(py_set_depth), NULL},
    {"switch_counters", py_switch_counters, METH_VARARGS, NULL},
    {"advance", py_advance, METH_O, NULL},
    {"add_neighbour", KEYWORDS(py_add_neighbour), NULL},
    {"open_socket", KEYWORDS(py_open_socket), NULL},
    {"send_run", (PyCFunction)(void (*)(void))py_send_run, METH_FASTCALL, NULL},
    {"alarm", (PyCFunction)(void (*)(void))py_alarm, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"sink", KEYWORDS(py_sink), NULL},
    {"sink_counts", py_sink_counts, METH_O, NULL},
    {"set_host_cost", KEYWORDS(py_set_host_cost), NULL},
    {"call_at", KEYWORDS(py_call_at), NULL},
    {"play", py_play, METH_O, NULL},
    {"stop_playing", py_stop_playing, METH_NOARGS, NULL},
    {"statistics", py_statistics, METH_NOARGS, NULL},
    {"queued", py_queued, METH_NOARGS, NULL},
    {"run", run, METH_NOARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, fabric_create},
    {Py_tp_dealloc, fabric_dealloc},
    {Py_tp_traverse, fabric_traverse},
    {Py_tp_clear, fabric_clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec fabric_type_spec = {
    .name = "testbed.netcore._core.Fabric",
    .basicsize = sizeof(struct fabric_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
