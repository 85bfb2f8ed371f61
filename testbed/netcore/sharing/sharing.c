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

/* What a flow asks of the link at a place of its row, of each unit of its rate; 0: nothing, or there is none. */
static double part(const struct filling *filling, size_t at)
{
    if ((size_t)filling->paths[at] == filling->links)
        return 0;
    return at % filling->longest < filling->longest / 2 ? 1 : filling->back[at / filling->longest];
}

/* Which flows are on which link, and all links that have some as candidates. */
static void lay_out(struct filling *filling, size_t flows, const double *capacity)
{
    size_t entries = flows * filling->longest, before = 0;
    for (size_t i = 0; i < entries; i++) {
        double asked = part(filling, i);
        if (asked > 0) {
            filling->waiting[filling->paths[i]]++;
            filling->asked[filling->paths[i]] += asked;
        }
    }
    for (size_t link = 0; link < filling->links; link++) {
        filling->first[link] = before;
        before += filling->waiting[link];
        if (filling->waiting[link]) {
            filling->left[link] = capacity[link];
            filling->heap[filling->candidates++] = (struct candidate){capacity[link] / filling->asked[link], link};
        }
    }
    for (size_t i = 0; i < entries; i++)
        if (part(filling, i) > 0)
            filling->on[filling->first[filling->paths[i]]++] = (uint32_t)(i / filling->longest);
    for (size_t at = filling->candidates / 2; at-- > 0;)
        sift(filling, at);
}

static void settle(struct filling *filling, size_t flow, double share)
{
    for (size_t i = flow * filling->longest; i < (flow + 1) * filling->longest; i++) {
        double asked = part(filling, i);
        if (asked > 0) {
            size_t link = (size_t)filling->paths[i];
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
    filling.on = malloc((flows * longest + 1) * sizeof *filling.on);
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
