/* The kernel ABI: what runs on a chunk of elements.
 *
 * A loop applies one function to `n` elements. `args` are its inputs, then its outputs; `steps` are the distances between
 * elements in bytes. Arguments are aligned and native, contiguous or (for loops that take it) uniform: step 0.
 * A loop returns 0, or 1 when it stopped at element `state->index`; the elements before that one are done.
 * A loop that may run for long looks at `*state->stop` now and then, and returns 1 when it is set.
 */
#ifndef TMAPAD_ABI_H
#define TMAPAD_ABI_H

#include <numpy/npy_common.h>

typedef struct {
    npy_intp index;
    const int *stop;
} tmapad_chunk_state;

typedef int (*tmapad_loop)(char **args, npy_intp n, const npy_intp *steps, void *data, tmapad_chunk_state *state);

#endif
