/* Workers on plain threads, made and joined by each region, in place of OpenMP's: a build for the thread sanitizer, which
 * knows what these calls order and takes OpenMP's barriers, made of futexes, for nothing. What workers do is the same
 * code, and as with OpenMP a thread may have several of them to run, one after the other. POSIX alone. */
#ifndef TMAPAD_PLAIN_THREADS_H
#define TMAPAD_PLAIN_THREADS_H

#include <pthread.h>
#include <stdlib.h>

enum { TMAPAD_LARGEST_TEAM = 6 };

typedef void (*tmapad_worker)(void *run, int number);
typedef struct {
    tmapad_worker worker;
    void *run;
    int workers, team, thread;
} tmapad_share;

static __thread int tmapad_team = 1;       /* threads of the region that this thread is in */

static void *tmapad_run_share(void *data) {
    const tmapad_share *share = data;
    tmapad_team = share->team;
    for (int number = share->thread; number < share->workers; number += share->team) share->worker(share->run, number);
    tmapad_team = 1;
    return NULL;
}

static int tmapad_on_plain_threads(tmapad_worker worker, void *run, int workers) {
    pthread_t threads[TMAPAD_LARGEST_TEAM];
    tmapad_share shares[TMAPAD_LARGEST_TEAM];
    int team = workers < TMAPAD_LARGEST_TEAM ? workers : TMAPAD_LARGEST_TEAM;
    for (int i = 0; i < team; i++) shares[i] = (tmapad_share){worker, run, workers, team, i};
    for (int i = 1; i < team; i++) if (pthread_create(&threads[i], NULL, tmapad_run_share, &shares[i])) abort();
    tmapad_run_share(&shares[0]);
    for (int i = 1; i < team; i++) pthread_join(threads[i], NULL);
    return 1;
}

#endif
