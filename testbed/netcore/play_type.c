/* Methods of the Python type Fabric about playing: the virtual clock, and functions that are called at instants of it. What
 * they do is told in __init__.pyi. */
#include "fabric_type.h"

#include <stdlib.h>

struct call {
    struct due due;
    struct event event;
    struct call *next, *before;
    struct fabric_object *owner;
    PyObject *function;
};

static void put_in(struct call **list, struct call *call)
{
    call->next = *list;
    call->before = NULL;
    if (call->next)
        call->next->before = call;
    *list = call;
}

static void take_out(struct call **list, struct call *call)
{
    if (call->before)
        call->before->next = call->next;
    else
        *list = call->next;
    if (call->next)
        call->next->before = call->before;
}

static bool serve_call(struct due *due, int64_t now_ns)
{
    struct call *call = CONTAINER_OF(due, struct call, due);
    struct fabric_object *owner = call->owner;
    PyObject *function = call->function, *now = PyLong_FromLongLong(now_ns), *result = NULL;
    take_out(&owner->calls, call);
    put_in(&owner->spare_calls, call);
    call->function = NULL;
    runs_settle(owner);
    if (now)
        result = PyObject_CallOneArg(function, now);
    Py_XDECREF(now);
    Py_DECREF(function);
    Py_XDECREF(result);
    return result;
}

static void on_call(struct event *event, int64_t at_ns)
{
    struct call *call = CONTAINER_OF(event, struct call, event);
    due_add(&call->owner->fabric->due, &call->due, at_ns);
}

static struct call *new_call(struct fabric_object *self)
{
    struct call *call = self->spare_calls;
    if (call) {
        take_out(&self->spare_calls, call);
        return call;
    }
    call = calloc(1, sizeof *call);
    if (!call || !eventq_attach(&self->fabric->events, 1)) {
        free(call);
        return NULL;
    }
    call->due.serve = serve_call;
    call->event.fire = on_call;
    call->owner = self;
    return call;
}

PyObject *py_call_at(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"at_ns", "function", NULL};
    struct fabric_object *object = (struct fabric_object *)self;
    long long at_ns;
    PyObject *function;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LO:call_at", names, &at_ns, &function) || !fabric_type_virtual(self))
        return NULL;
    if (at_ns < object->fabric->virtual_ns)
        return PyErr_Format(PyExc_ValueError, "the clock is at %lld ns already", (long long)object->fabric->virtual_ns);
    struct call *call = new_call(object);
    if (!call)
        return PyErr_NoMemory();
    call->function = Py_NewRef(function);
    put_in(&object->calls, call);
    eventq_schedule(&object->fabric->events, &call->event, at_ns);
    Py_RETURN_NONE;
}

static bool interrupted(void)
{
    return PyErr_CheckSignals() != 0;
}

PyObject *py_play(PyObject *self, PyObject *argument)
{
    struct fabric_object *object = (struct fabric_object *)self;
    struct fabric *fabric = object->fabric;
    long long until_ns = PyLong_AsLongLong(argument);
    if (PyErr_Occurred() || !fabric_type_virtual(self))
        return NULL;
    if (fabric->playing || fabric->held)
        return PyErr_Format(PyExc_RuntimeError, "a fabric that is played or held already is not played");
    if (until_ns < fabric->virtual_ns)
        return PyErr_Format(PyExc_ValueError, "the clock is at %lld ns already", (long long)fabric->virtual_ns);
    bool well = fabric_play(fabric, until_ns, interrupted);
    runs_settle(object);
    return well ? PyLong_FromLongLong(fabric->virtual_ns) : NULL;
}

PyObject *py_stop_playing(PyObject *self, PyObject *unused)
{
    (void)unused;
    fabric_of(self)->ends_playing = true;
    Py_RETURN_NONE;
}

PyObject *py_statistics(PyObject *self, PyObject *unused)
{
    const struct fabric *fabric = fabric_of(self);
    uint64_t hops = 0;
    (void)unused;
    if (!fabric_type_virtual(self))
        return NULL;
    for (size_t i = 0; i < fabric->link_count; i++)
        hops += link_counts_of(&fabric->links[i]->link, LINK_ALL).packets;
    return Py_BuildValue("{sKsKsKsKsL}", "events", fabric->fired, "hops", hops, "packets", fabric->pool.packets,
                         "most_packets", fabric->pool.most_packets, "now_ns", (long long)fabric->virtual_ns);
}

PyObject *py_queued(PyObject *self, PyObject *unused)
{
    const struct fabric *fabric = fabric_of(self);
    PyObject *list = fabric_type_virtual(self) ? PyList_New((Py_ssize_t)fabric->link_count) : NULL;
    (void)unused;
    for (size_t i = 0; list && i < fabric->link_count; i++) {
        PyObject *bytes = PyLong_FromUnsignedLongLong(fabric->links[i]->link.queued_bytes);
        if (bytes)
            PyList_SET_ITEM(list, (Py_ssize_t)i, bytes);
        else
            Py_CLEAR(list);
    }
    return list;
}

int calls_traverse(struct fabric_object *self, visitproc visit, void *arg)
{
    for (struct call *call = self->calls; call; call = call->next)
        Py_VISIT(call->function);
    return 0;
}

void calls_clear(struct fabric_object *self)
{
    for (struct call *call = self->calls; call; call = call->next)
        Py_SETREF(call->function, Py_NewRef(Py_None));
}

void calls_free(struct fabric_object *self)
{
    for (struct call *lists[] = {self->calls, self->spare_calls}, **list = lists; list < lists + 2; list++)
        for (struct call *call = *list, *next; call; call = next) {
            next = call->next;
            Py_XDECREF(call->function);
            free(call);
        }
}
