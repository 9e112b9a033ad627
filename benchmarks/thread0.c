/* Thread 0 as one would write it in C: dd, jbd2, one device, CFQ's idle rule alone (networks.py says what that is).
   Prints requests served, simulated seconds, CPU seconds.  cc -O2 thread0.c -lm; ./a.out thread0 REQUESTS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DATA, LOG, COMMIT, SUBMIT, COMPLETE, TIMER };
enum { COMMAND_NS = 105000, IDLE_NS = 8000000, NOBODY = -1 };

typedef struct { int64_t at, seq; int kind; int64_t what; } event;

static event heap[64];
static int heap_n, busy, idling_for = NOBODY, waiting[8], waiting_n;
static int64_t seq, now, window, served;
static const int64_t gap[] = { 37000, 12000, 23000 };

static int before(const event *a, const event *b) { return a->at < b->at || (a->at == b->at && a->seq < b->seq); }

static void schedule(int64_t delay, int kind, int64_t what)
{
    event e = { now + delay, seq++, kind, what };
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

static void dispatch(void)
{
    int request = waiting[0];
    for (int i = 1; i < waiting_n; i++)
        waiting[i - 1] = waiting[i];
    waiting_n--;
    idling_for = NOBODY;
    window++;
    busy = 1;
    schedule(COMMAND_NS, COMPLETE, request);
}

int main(int argc, char **argv)
{
    int64_t wanted = argc > 2 ? atoll(argv[2]) : 1000000;
    clock_t begin = clock();
    schedule(0, SUBMIT, DATA);
    while (served < wanted) {
        event e = next();
        now = e.at;
        if (e.kind == SUBMIT) {
            int queue = e.what != DATA;
            waiting[waiting_n++] = (int)e.what;
            if (!busy && (idling_for == NOBODY || idling_for == queue || queue == 1))
                dispatch();
        } else if (e.kind == COMPLETE) {
            served++;
            busy = 0;
            idling_for = e.what != DATA;
            schedule(IDLE_NS, TIMER, ++window);
            schedule(gap[e.what], SUBMIT, (e.what + 1) % 3);
        } else if (e.what == window) {
            if (waiting_n > 0)
                dispatch();
            else
                idling_for = NOBODY;
        }
    }
    printf("%lld %.9f %.6f\n", (long long)served, now * 1e-9, (double)(clock() - begin) / CLOCKS_PER_SEC);
    return 0;
}
