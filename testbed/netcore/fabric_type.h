/* What the files of the Python type Fabric share. */
#ifndef NETCORE_FABRIC_TYPE_H
#define NETCORE_FABRIC_TYPE_H

#include "module.h"

#include "fabric.h"

struct fabric_object {
    PyObject_HEAD
    struct fabric *fabric;
};

static inline struct fabric *fabric_of(PyObject *self)
{
    return ((struct fabric_object *)self)->fabric;
}

/* Have the loop do something, without the interpreter's lock. False: an exception tells that it did not. */
bool fabric_type_call(struct fabric *fabric, void (*function)(struct fabric *fabric, void *argument), void *argument);

/* A port by its index; NULL: an exception tells that there is none. */
struct fabric_port *fabric_type_port(struct fabric *fabric, Py_ssize_t index);

/* What counts of a job, or of all jobs (`job` is None). False: an exception tells that there is no such job. */
bool fabric_type_class(PyObject *job, enum link_class *class);

/* Methods that are about switches, packets by hand and the clock. */
PyObject *py_add_memory_port(PyObject *self, PyObject *unused);
PyObject *py_add_switch(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_switch_instance(PyObject *self, PyObject *argument);
PyObject *py_load_program(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_swap_program(PyObject *self, PyObject *argument);
PyObject *py_probe_program(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_add_switch_port(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_configure_switch(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_set_group(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_set_session(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_nic_priorities(PyObject *self, PyObject *argument);
PyObject *py_hold(PyObject *self, PyObject *unused);
PyObject *py_release(PyObject *self, PyObject *unused);
PyObject *py_inject(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_send_out(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_send(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_taken(PyObject *self, PyObject *unused);
PyObject *py_punted(PyObject *self, PyObject *unused);
PyObject *py_digests(PyObject *self, PyObject *argument);
PyObject *py_messages(PyObject *self, PyObject *argument);
PyObject *py_set_depth(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_switch_counters(PyObject *self, PyObject *args);
PyObject *py_advance(PyObject *self, PyObject *argument);

#endif
