/* Runs of RoCE packets as Python has them: what was sent, to which packets refer, and what is told of those that came. */
#ifndef NETCORE_RUN_TYPE_H
#define NETCORE_RUN_TYPE_H

#include "fabric_type.h"

/* A run that was sent: what its packets refer to. */
struct sent {
    struct payload payload;
    struct sent *next, *before;
    struct fabric_object *owner;
    PyObject *headers; /* tuple of bytes */
    PyObject *view;    /* memoryview of the payload; NULL: nobody asked for it */
    Py_buffer bytes;
};

/* Refer to a run's headers (a tuple of bytes) and payload (a buffer); NULL: an exception tells why not. The caller has a
 * reference of the payload, to be dropped. */
struct sent *runs_new(struct fabric_object *self, PyObject *headers, PyObject *payload);

/* The tuple by which a turn is told of a run; NULL: an exception is set. */
PyObject *runs_told(const struct socket *socket, const struct arrived *run);

#endif
