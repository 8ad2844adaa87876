/* Python exceptions on threads that run without the GIL: whether one is set, and what a worker needs to keep one. */
#ifndef TMAPAD_EXCEPTIONS_H
#define TMAPAD_EXCEPTIONS_H

#include <Python.h>

/* Whether workers may run what sets exceptions. Without a GIL that is left to the calling thread. */
#if defined(Py_GIL_DISABLED)
enum { TMAPAD_WORKERS_RAISE = 0 };
#else
enum { TMAPAD_WORKERS_RAISE = 1 };
#endif

/* The state that Python has for this thread; NULL if none. Exceptions are set in it. */
static inline PyThreadState *tmapad_this_thread(void) { return PyGILState_GetThisThreadState(); }

/* Whether an exception is set in this thread: asked without the GIL, which only the thread itself may do. */
static inline int tmapad_exception_in(const PyThreadState *state) {
    if (state == NULL) return 0;
#if PY_VERSION_HEX >= 0x030C0000
    return state->current_exception != NULL;
#else
    return state->curexc_type != NULL;
#endif
}
static inline int tmapad_exception_pending(void) { return tmapad_exception_in(tmapad_this_thread()); }

/* Take the exception that is set, with the GIL; NULL if there is none. */
static inline PyObject *tmapad_take_exception(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* A thread that Python does not know gets a state for as long as it stays. Without one, a function that takes the GIL to
 * set an exception makes a state and destroys it when it gives the GIL back, and the exception with it. */
typedef struct {
    PyThreadState *state;
    PyGILState_STATE before;
} tmapad_guest;
static inline void tmapad_enter_python(tmapad_guest *guest, int raises) {
    guest->state = NULL;
    if (raises && tmapad_this_thread() == NULL) {
        guest->before = PyGILState_Ensure();
        guest->state = PyEval_SaveThread();
    }
}
static inline void tmapad_leave_python(tmapad_guest *guest) {
    if (guest->state != NULL) {
        PyEval_RestoreThread(guest->state);
        PyGILState_Release(guest->before);
    }
}

#endif
