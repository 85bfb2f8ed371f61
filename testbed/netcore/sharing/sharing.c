#include "sharing.h"

#include <stdlib.h>

/* A link that flows wait on. `share` was its equal share when it was last looked at: since then it can only have grown. */
struct candidate {
    double share;
    size_t link;
};

struct filling {
    const int64_t *paths;
    const double *back;
    size_t longest;
    size_t links;
    double *left;            /* by link */
    double *asked;           /* by link: by all flows without a rate together, of each unit of their rates */
    uint32_t *waiting;       /* by link: how many flows have no rate yet */
    size_t *first;           /* by link: its flows end there in `on`, and begin where those of the one before end */
    uint32_t *on;            /* the flows of each link */
    struct candidate *heap;  /* least share first */
    size_t candidates;
    size_t unsettled;        /* flows */
};

static void sift(struct filling *filling, size_t at)
{
    struct candidate *heap = filling->heap, moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= filling->candidates)
            break;
        if (child + 1 < filling->candidates && heap[child + 1].share < heap[child].share)
            child++;
        if (moved.share <= heap[child].share)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* The link at a place of a flow's path, or that which comes back beside it; and what the flow asks of it, of each unit of
 * its rate. 0: nothing, or there is no link. */
static double part(const struct filling *filling, size_t flow, size_t at, int back, size_t *link)
{
    size_t crossed = (size_t)filling->paths[flow * filling->longest + at];
    *link = back ? crossed ^ 1 : crossed;
    if (crossed == filling->links || *link == filling->links)
        return 0;
    return back ? filling->back[flow] : 1;
}

/* Which flows are on which link, and all links that have some as candidates. */
static void lay_out(struct filling *filling, size_t flows, const double *capacity)
{
    size_t link, before = 0;
    for (size_t flow = 0; flow < flows; flow++)
        for (size_t at = 0; at < filling->longest; at++)
            for (int back = 0; back < 2; back++) {
                double asked = part(filling, flow, at, back, &link);
                if (asked > 0) {
                    filling->waiting[link]++;
                    filling->asked[link] += asked;
                }
            }
    for (link = 0; link < filling->links; link++) {
        filling->first[link] = before;
        before += filling->waiting[link];
        if (filling->waiting[link]) {
            filling->left[link] = capacity[link];
            filling->heap[filling->candidates++] = (struct candidate){capacity[link] / filling->asked[link], link};
        }
    }
    for (size_t flow = 0; flow < flows; flow++)
        for (size_t at = 0; at < filling->longest; at++)
            for (int back = 0; back < 2; back++)
                if (part(filling, flow, at, back, &link) > 0)
                    filling->on[filling->first[link]++] = (uint32_t)flow;
    for (size_t at = filling->candidates / 2; at-- > 0;)
        sift(filling, at);
}

static void settle(struct filling *filling, size_t flow, double share)
{
    size_t link;
    for (size_t at = 0; at < filling->longest; at++)
        for (int back = 0; back < 2; back++) {
            double asked = part(filling, flow, at, back, &link);
            if (asked > 0) {
                double left = filling->left[link] - share * asked;
                filling->left[link] = left > 0 ? left : 0; /* rounding */
                filling->waiting[link]--;
                filling->asked[link] -= asked;
            }
        }
}

static void fill(struct filling *filling, double *rates)
{
    while (filling->candidates && filling->unsettled) {
        struct candidate *least = filling->heap;
        size_t link = least->link, waiting = filling->waiting[link];
        double share = waiting ? filling->left[link] / filling->asked[link] : 0;
        if (waiting && share > least->share) {
            least->share = share;
            sift(filling, 0);
            continue;
        }
        if (waiting) {
            size_t begin = link ? filling->first[link - 1] : 0;
            for (size_t i = begin; i < filling->first[link]; i++)
                if (rates[filling->on[i]] < 0) {
                    rates[filling->on[i]] = share;
                    filling->unsettled--;
                    settle(filling, filling->on[i], share);
                }
        }
        *least = filling->heap[--filling->candidates];
        sift(filling, 0);
    }
}

bool sharing_max_min(const int64_t *paths, size_t flows, size_t longest, const double *back, const double *capacity,
                     size_t links, double *rates)
{
    struct filling filling = {.paths = paths, .back = back, .longest = longest, .links = links, .unsettled = flows};
    filling.asked = calloc(links + 1, sizeof *filling.asked);
    filling.left = malloc((links + 1) * sizeof *filling.left);
    filling.waiting = calloc(links + 1, sizeof *filling.waiting);
    filling.first = malloc((links + 1) * sizeof *filling.first);
    filling.on = malloc((2 * flows * longest + 1) * sizeof *filling.on);
    filling.heap = malloc((links + 1) * sizeof *filling.heap);
    bool held = filling.asked && filling.left && filling.waiting && filling.first && filling.on && filling.heap;
    if (held) {
        for (size_t flow = 0; flow < flows; flow++)
            rates[flow] = -1; /* none yet */
        lay_out(&filling, flows, capacity);
        fill(&filling, rates);
    }
    free(filling.asked);
    free(filling.left);
    free(filling.waiting);
    free(filling.first);
    free(filling.on);
    free(filling.heap);
    return held;
}
