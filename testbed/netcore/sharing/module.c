/* The Python module testbed.netcore._sharing; what its function does is told in _sharing.pyi. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sharing.h"

/* Whether each entry of the paths is a link, or the number after the last, which is none. */
static int known(const int64_t *paths, size_t entries, size_t links)
{
    for (size_t i = 0; i < entries; i++)
        if (paths[i] < 0 || (size_t)paths[i] > links)
            return 0;
    return 1;
}

static PyObject *shared(const Py_buffer *paths, const Py_buffer *back, const Py_buffer *capacity,
                        const Py_buffer *rates)
{
    size_t links = (size_t)capacity->len / sizeof(double), flows = (size_t)rates->len / sizeof(double);
    size_t entries = (size_t)paths->len / sizeof(int64_t);
    bool held = true;
    if ((flows ? entries % flows : entries) || (size_t)back->len != flows * sizeof(double) || flows > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "%zu entries are no paths of %zu flows", entries, flows);
    if (!known(paths->buf, entries, links))
        return PyErr_Format(PyExc_ValueError, "a path names a link outside 0 ... %zu", links);
    Py_BEGIN_ALLOW_THREADS
    held = sharing_max_min(paths->buf, flows, flows ? entries / flows : 0, back->buf, capacity->buf, links, rates->buf);
    Py_END_ALLOW_THREADS
    if (!held)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_max_min(PyObject *module, PyObject *args)
{
    Py_buffer paths, back, capacity, rates;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*w*:max_min", &paths, &back, &capacity, &rates))
        return NULL;
    PyObject *result = shared(&paths, &back, &capacity, &rates);
    PyBuffer_Release(&paths);
    PyBuffer_Release(&back);
    PyBuffer_Release(&capacity);
    PyBuffer_Release(&rates);
    return result;
}

static PyMethodDef functions[] = {
    {"max_min", py_max_min, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "testbed.netcore._sharing",
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__sharing(void)
{
    return PyModule_Create(&definition);
}
