/* A closed network as one would write it in C: jobs that think, one queue, one exponential server, a binary heap of
   events. Prints jobs served, simulated seconds, CPU seconds.  cc -O2 closed_network.c -lm; ./a.out JOBS REQUESTS */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THINK_NS = 500000, SERVICE_NS = 100000, MOST = 4096 };

typedef struct { int64_t at, seq; int kind, job; } event;

static event heap[2 * MOST];
static int heap_n;
static int64_t seq, now;
static int queue[MOST], first, waiting, jobs;
static uint64_t state = 88172645463325252ULL;

static int before(const event *a, const event *b) { return a->at < b->at || (a->at == b->at && a->seq < b->seq); }

static void schedule(int64_t at, int kind, int job)
{
    event e = { at, seq++, kind, job };
    int i = heap_n++;
    for (; i > 0 && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

static event next(void)
{
    event top = heap[0], last = heap[--heap_n];
    int i = 0;
    for (int child = 1; child < heap_n; child = 2 * i + 1) {
        if (child + 1 < heap_n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static int64_t service(void)
{
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return llround(-SERVICE_NS * log((state >> 11) * 0x1.0p-53 + 0x1.0p-54));
}

int main(int argc, char **argv)
{
    jobs = argc > 1 ? atoi(argv[1]) : 16;
    int64_t wanted = argc > 2 ? atoll(argv[2]) : 1000000, served = 0, busy = 0, area = 0;
    if (jobs < 1 || jobs > MOST)
        return 2;
    for (int j = 0; j < jobs; j++)
        schedule(THINK_NS, 0, j);
    clock_t begin = clock();
    while (served < wanted) {
        event e = next();
        area += (e.at - now) * waiting;
        now = e.at;
        if (e.kind == 0) {
            queue[(first + waiting++) % jobs] = e.job;
        } else {
            served++;
            first = (first + 1) % jobs;
            waiting--;
            schedule(now + THINK_NS, 0, e.job);
        }
        if (waiting > 0 && (e.kind == 1 || waiting == 1)) {
            int64_t length = service();
            busy += length;
            schedule(now + length, 1, queue[first]);
        }
    }
    printf("%lld %.9f %.6f\n", (long long)served, now * 1e-9, (double)(clock() - begin) / CLOCKS_PER_SEC);
    fprintf(stderr, "utilisation %.4f, mean in queue %.4f\n", (double)busy / now, (double)area / now);
    return 0;
}
