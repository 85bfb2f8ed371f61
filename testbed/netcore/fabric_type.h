/* What the files of the Python type Fabric share. */
#ifndef NETCORE_FABRIC_TYPE_H
#define NETCORE_FABRIC_TYPE_H

#include "module.h"

#include "fabric.h"

struct fast_object;

/* A socket and what has its turn. */
struct socket_object {
    struct socket socket;
    PyObject *turn;
    struct fast_object *fast; /* which has it in place of that; NULL: nothing has */
    struct fabric_object *owner;
};

struct sent;
struct call;

struct fabric_object {
    PyObject_HEAD
    struct fabric *fabric;
    struct socket_object **sockets; /* by number */
    size_t socket_count;
    struct sent *sent;     /* runs to which packets refer */
    struct sent *released; /* to which none does any more, and whose references are to be dropped between two events */
    struct sent *spare_sent;
    struct call *calls;    /* that are scheduled */
    struct call *spare_calls;
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

/* Methods that are about sockets. */
PyObject *py_add_neighbour(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_open_socket(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_send_run(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *py_alarm(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *py_sink(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_sink_counts(PyObject *self, PyObject *argument);
PyObject *py_set_host_cost(PyObject *self, PyObject *args, PyObject *keywords);

/* A socket by its number; NULL: an exception tells that there is none. */
struct socket_object *fabric_type_socket(PyObject *self, PyObject *number);

/* Give a socket its turn by `turn`. */
bool socket_type_serve(struct due *due, int64_t now_ns);

/* Call a function with the time and what came from one run on, and have done with all that was taken; false: it failed. */
bool socket_type_tell(struct socket_object *object, PyObject *function, struct arrived *taken, const struct arrived *from,
                      int64_t now_ns);

/* Methods that are about playing. */
PyObject *py_call_at(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_play(PyObject *self, PyObject *argument);
PyObject *py_stop_playing(PyObject *self, PyObject *unused);
PyObject *py_statistics(PyObject *self, PyObject *unused);
PyObject *py_queued(PyObject *self, PyObject *unused);

/* False: an exception tells that the fabric's clock is no virtual one. */
bool fabric_type_virtual(PyObject *self);

/* Drop the references of runs that nobody refers to, between two events. */
void runs_settle(struct fabric_object *self);

/* For the collector of cycles, and the end. */
int sockets_traverse(struct fabric_object *self, visitproc visit, void *arg);
void sockets_clear(struct fabric_object *self);
void sockets_free(struct fabric_object *self);
void runs_free(struct fabric_object *self);
int calls_traverse(struct fabric_object *self, visitproc visit, void *arg);
void calls_clear(struct fabric_object *self);
void calls_free(struct fabric_object *self);

#endif
