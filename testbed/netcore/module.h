/* The Python binding's own seam: the module's functions, and its types. */
#ifndef NETCORE_MODULE_H
#define NETCORE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyType_Spec fabric_type_spec, fast_type_spec;
extern PyTypeObject *fabric_type;

#endif
