/* What the processor says of itself: the same words on each of its cores, and other ones on a processor with other
 * features. Code compiled for one processor is only run where these are the same.
 *
 * A word in which bits differ from core to core (the number of the core, in EBX of leaf 1) is left out. */
#ifndef TMAPAD_PROCESSOR_H
#define TMAPAD_PROCESSOR_H

#include <stdint.h>

#define TMAPAD_PROCESSOR_WORDS 64

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>

/* Leaf and subleaf; which of EAX, EBX, ECX, EDX count, as bits 0 to 3. */
static const unsigned tmapad_leaves[][3] = {
    {0x00, 0, 0xE},                                          /* the maker */
    {0x01, 0, 0xD},                                          /* family, model, stepping; SSE to AVX */
    {0x07, 0, 0xE}, {0x07, 1, 0xF}, {0x07, 2, 0x8},          /* AVX2, AVX-512, AMX */
    {0x0D, 1, 0x1}, {0x14, 0, 0x2}, {0x19, 0, 0x2},          /* saved state, tracing, key locker */
    {0x1E, 1, 0x1}, {0x24, 0, 0x2},                          /* AMX, AVX10 */
    {0x80000001, 0, 0xC}, {0x80000008, 0, 0x2}, {0x80000021, 0, 0x1},
};

/* Fill `words`; the result is how many there are, 0 if the processor is none that is known here. */
static inline int tmapad_processor(uint32_t *words) {
    int n = 0;
    for (unsigned i = 0; i < sizeof tmapad_leaves / sizeof tmapad_leaves[0]; i++) {
        const unsigned *leaf = tmapad_leaves[i];
        unsigned registers[4] = {0, 0, 0, 0};
        if (leaf[0] <= __get_cpuid_max(leaf[0] & 0x80000000u, 0))
            __cpuid_count(leaf[0], leaf[1], registers[0], registers[1], registers[2], registers[3]);
        if (leaf[0] == 1 && (registers[2] & (1u << 27))) {   /* which registers the system saves: XGETBV */
            unsigned lo, hi;
            __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(lo), "=d"(hi) : "c"(0));
            words[n++] = lo;
        }
        for (int k = 0; k < 4; k++)
            if (leaf[2] >> k & 1) words[n++] = registers[k];
    }
    return n;
}
#else
static inline int tmapad_processor(uint32_t *words) { (void)words; return 0; }
#endif

#endif
