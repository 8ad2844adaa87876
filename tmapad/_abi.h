/* The kernel ABI: what runs on a chunk of elements.
 *
 * A loop applies one function to `n` elements. `args` are its inputs, then its outputs; `steps` are the distances between
 * elements in bytes. Arguments are aligned and native, contiguous or (for loops that take it) uniform: step 0.
 * A loop returns 0, or 1 when it stopped at element `state->index`; the elements before that one are done.
 *
 * A run can be over before its elements are done, since Ctrl-C or another signal ended it: `*state->stop` is then set,
 * and stays set. It is set by the calling thread, which looks for signals in `state->poll(state)`. So a loop whose
 * elements may take long calls `poll` every few milliseconds, from inside an element if need be. If that gives anything
 * but 0 the loop gives up at once: it returns 1, with `state->index` as above. It may look at the flag alone more often.
 * Neither pointer is null.
 */
#ifndef TMAPAD_ABI_H
#define TMAPAD_ABI_H

#include <numpy/npy_common.h>

typedef struct tmapad_chunk_state tmapad_chunk_state;
struct tmapad_chunk_state {
    npy_intp index;
    const int *stop;
    int (*poll)(tmapad_chunk_state *state);
};

typedef int (*tmapad_loop)(char **args, npy_intp n, const npy_intp *steps, void *data, tmapad_chunk_state *state);

#endif
