/* Copies of elements between an array of any layout and contiguous scratch, byte-swapped where the array is not native.
 * memcpy of a constant size compiles to a plain move and works at any alignment. */
#ifndef TMAPAD_STRIDED_H
#define TMAPAD_STRIDED_H

#include <stdint.h>
#include <string.h>
#include <numpy/npy_common.h>

typedef void (*tmapad_copy)(char *to, npy_intp to_step, const char *from, npy_intp from_step, npy_intp n);

static inline uint16_t tmapad_swap_16(uint16_t x) { return (uint16_t)(x << 8 | x >> 8); }
static inline uint32_t tmapad_swap_32(uint32_t x) {
    return (uint32_t)tmapad_swap_16((uint16_t)x) << 16 | tmapad_swap_16((uint16_t)(x >> 16));
}
static inline uint64_t tmapad_swap_64(uint64_t x) {
    return (uint64_t)tmapad_swap_32((uint32_t)x) << 32 | tmapad_swap_32((uint32_t)(x >> 32));
}

#define AS_IT_IS(x) (x)
#define COPY(NAME, UNIT, PARTS, CONVERT) \
    static void tmapad_copy_##NAME(char *to, npy_intp to_step, const char *from, npy_intp from_step, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++, to += to_step, from += from_step) { \
            UNIT parts[PARTS]; \
            memcpy(parts, from, sizeof parts); \
            for (int k = 0; k < PARTS; k++) parts[k] = CONVERT(parts[k]); \
            memcpy(to, parts, sizeof parts); \
        } \
    }
COPY(1, uint8_t, 1, AS_IT_IS)
COPY(2, uint16_t, 1, AS_IT_IS)
COPY(4, uint32_t, 1, AS_IT_IS)
COPY(8, uint64_t, 1, AS_IT_IS)
COPY(16, uint64_t, 2, AS_IT_IS)
COPY(2_swapped, uint16_t, 1, tmapad_swap_16)
COPY(4_swapped, uint32_t, 1, tmapad_swap_32)
COPY(8_swapped, uint64_t, 1, tmapad_swap_64)
COPY(8_swapped_parts, uint32_t, 2, tmapad_swap_32)
COPY(16_swapped_parts, uint64_t, 2, tmapad_swap_64)
#undef AS_IT_IS
#undef COPY

/* The copy of elements of `size` bytes whose units of `swapped` bytes (0: none) change their byte order; NULL: there is none. */
static inline tmapad_copy tmapad_copy_for(npy_intp size, npy_intp swapped) {
    static const struct { npy_intp size, swapped; tmapad_copy copy; } table[] = {
        {8, 0, tmapad_copy_8}, {4, 0, tmapad_copy_4}, {16, 0, tmapad_copy_16}, {1, 0, tmapad_copy_1}, {2, 0, tmapad_copy_2},
        {1, 1, tmapad_copy_1}, {2, 2, tmapad_copy_2_swapped}, {4, 4, tmapad_copy_4_swapped}, {8, 8, tmapad_copy_8_swapped},
        {8, 4, tmapad_copy_8_swapped_parts}, {16, 8, tmapad_copy_16_swapped_parts},
    };
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++)
        if (table[row].size == size && table[row].swapped == swapped) return table[row].copy;
    return NULL;
}

#endif
