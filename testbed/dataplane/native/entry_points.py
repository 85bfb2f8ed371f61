"""The functions that the ABI calls for a packet: ingress, egress, and the ways in which a packet comes round again."""

from testbed.dataplane.bmv2model import JsonError, Term
from testbed.dataplane.native.layout import Layout, pattern
from testbed.dataplane.native.numbers import modular, stored

_BEGIN = """
static void begin(struct p4_instance *s, struct context *c, const struct p4_packet *packet, uint32_t port)
{
    c->progress.port = port;
    c->progress.received = c->progress.length = packet->length;
    c->progress.limit = UINT32_MAX;
    parse(s, c, packet);
    @verify
}
"""

_FORWARD = """
/* Everything is inlined, so that the compiler keeps what it can of the context in registers. */
__attribute__((flatten))
static void forward(struct p4_instance *s, struct p4_packet *packet, uint32_t port, int64_t now_ns,
                    struct p4_verdict *verdict)
{
    struct context context = {0}, *c = &context;
    c->progress.now_ns = now_ns;
    @set ingress_port port
    @set ingress_global_timestamp c->progress.now_ns / 1000
    @set packet_length packet->length
    begin(s, c, packet, port);
    @stop
    ingress_control(c, s);
    @stop
    *verdict = (struct p4_verdict){.priority = @get(priority), .port = @get(egress_spec)};
    if (@get(egress_spec) == DROP_PORT)
        verdict->fate = P4_DROP;
    else
        verdict->fate = write_headers(s, c, packet) ? P4_UNICAST : P4_FAILED;
}
"""

_INGRESS = """
static void run_ingress(struct p4_instance *s, struct p4_packet *packet, uint32_t port, int64_t now_ns,
                        struct p4_verdict *verdict)
{
    struct context *c = packet->context;
    c->progress.now_ns = now_ns;
    @set ingress_global_timestamp c->progress.now_ns / 1000
    @set packet_length packet->length
    begin(s, c, packet, port);
    @stop
    ingress_control(c, s);
    @stop
    c->progress.exited = false;
    *verdict = (struct p4_verdict){
        .priority = @get(priority),
        .length = c->progress.length < c->progress.limit ? c->progress.length : c->progress.limit,
        .clone = c->progress.clone,
        .clone_session = c->progress.clone_session,
        .digest = c->progress.digest_list != 0,
        .digest_list = c->progress.digest_list,
    };
    c->progress.clone = false;
    if (c->progress.resubmit) {
        verdict->fate = P4_RESUBMIT;
    } else if (@get(mcast_grp)) {
        verdict->fate = P4_MULTICAST;
        verdict->group = @get(mcast_grp);
        @set instance_type INSTANCE_REPLICATED
    } else if (@get(egress_spec) == DROP_PORT) {
        verdict->fate = P4_DROP;
    } else {
        verdict->fate = P4_UNICAST;
        verdict->port = @get(egress_spec);
        @set instance_type INSTANCE_NORMAL
    }
}

static void ingress(struct p4_instance *s, struct p4_packet *packet, uint32_t port, int64_t now_ns,
                    struct p4_verdict *verdict)
{
    struct context *c = packet->context;
    memset(c, 0, sizeof *c);
    @set ingress_port port
    run_ingress(s, packet, port, now_ns, verdict);
}

static void clone_ingress(struct p4_instance *s, const struct p4_packet *original, struct p4_packet *clone)
{
    const struct context *from = original->context;
    struct context *c = clone->context;
    memset(c, 0, sizeof *c);
    c->progress.now_ns = from->progress.now_ns;
    @set ingress_port from->progress.port
    begin(s, c, clone, from->progress.port);
    memset(&c->m, 0, sizeof c->m);
    preserve(c, from, from->progress.clone_list);
    @set instance_type INSTANCE_INGRESS_CLONE
}
"""

_STOP = """
    if (c->progress.failed) {
        *verdict = (struct p4_verdict){.fate = P4_FAILED};
        return;
    }
""".strip()

_AGAIN = "".join(
    """
static void @what(struct p4_instance *s, struct p4_packet *packet, int64_t now_ns, struct p4_verdict *verdict)
{
    struct context *c = packet->context;
    const struct context before = *c;
    memset(c, 0, sizeof *c);
    preserve(c, &before, before.progress.@what_list);
    @set instance_type @type
    run_ingress(s, packet, before.progress.port, now_ns, verdict);
}
""".replace("@what", what).replace("@type", kind)
    for what, kind in (("resubmit", "INSTANCE_RESUBMITTED"), ("recirculate", "INSTANCE_RECIRCULATED"))
)

_EGRESS = """
static void egress(struct p4_instance *s, struct p4_packet *packet, const struct p4_departure *departure,
                   struct p4_verdict *verdict)
{
    struct context *c = packet->context;
    c->progress.now_ns = departure->now_ns;
    c->progress.clone = c->progress.recirculate = false;
    @set egress_port departure->port
    @set egress_spec 0
    @set egress_rid departure->rid
    @set packet_length c->progress.length
    @set egress_global_timestamp departure->now_ns / 1000
    @set enq_timestamp departure->enq_timestamp_us
    @set enq_qdepth queue_depth(departure->enq_qdepth)
    @set deq_timedelta departure->deq_timedelta_us
    @set deq_qdepth queue_depth(departure->deq_qdepth)
    @stop
    egress_control(c, s);
    @stop
    c->progress.exited = false;
    *verdict = (struct p4_verdict){.clone = c->progress.clone, .clone_session = c->progress.clone_session};
    if (@get(egress_spec) == DROP_PORT)
        verdict->fate = P4_DROP;
    else
        verdict->fate = c->progress.recirculate ? P4_RECIRCULATE : P4_SEND;
}

static bool deparse(struct p4_instance *s, struct p4_packet *packet)
{
    return write_headers(s, packet->context, packet);
}

static void clone_egress(struct p4_instance *s, const struct p4_packet *original, struct p4_packet *clone)
{
    const struct context *from = original->context;
    struct context *c = clone->context;
    (void)s;
    *c = *from;
    c->progress.limit = UINT32_MAX;
    memset(&c->m, 0, sizeof c->m);
    preserve(c, from, from->progress.clone_list);
    @set instance_type INSTANCE_EGRESS_CLONE
}
"""


def entry_points(layout: Layout) -> list[str]:
    """The functions, in an order in which each is known before it is called."""
    verifies = verifies_checksums(layout)
    template = _BEGIN.replace("@verify", "verify_checksums(s, c, packet);" if verifies else "")
    if layout.usage.one_way:
        template, others = template + _FORWARD, []
    else:
        template, others = template + _INGRESS + _AGAIN + _EGRESS, ["", *_digest_read(layout)]
    lines = [] if layout.usage.one_way else _preserve(layout)
    for line in template.replace("@stop", _STOP if layout.usage.asserts else "").splitlines():
        lines += _filled(layout, line)
    return [*lines, *others]


def entry_names(layout: Layout) -> tuple[str, ...]:
    """Those of the functions that the ABI calls."""
    if layout.usage.one_way:
        return ("forward",)
    again = ("resubmit", "recirculate")
    return ("ingress", *again, "clone_ingress", "egress", "clone_egress", "deparse", "digest_read")


def verifies_checksums(layout: Layout) -> bool:
    """Whether checksums are verified, and the program asks for the outcome."""
    return layout.standard("checksum_error") is not None and any(c.verify for c in layout.program.checksums)


def _filled(layout: Layout, line: str) -> list[str]:
    """A line of a template: `@set FIELD VALUE` and `@get(FIELD)` are about standard metadata. Lines left blank go."""
    words = line.split(maxsplit=2)
    if words[:1] == ["@set"]:
        place, path = layout.program.standard(words[1]), layout.standard(words[1])
        if place is None or path is None:
            return []
        own = layout.field(*place)[1]
        value = words[2] if own.bits in (8, 16, 32, 64) else f"({words[2]}) & {(1 << own.bits) - 1:#x}ul"
        return [f"{line[: line.index('@')]}{path} = ({stored(own.bits)})({value});"]
    while "@get(" in line:
        before, _, rest = line.partition("@get(")
        name, _, after = rest.partition(")")
        line = f"{before}{layout.standard(name) or '0'}{after}"
    return [line] if line.strip() or not line else []


def _preserve(layout: Layout) -> list[str]:
    lines = [
        "/* Copy the fields of a field list; list 0 has none. */",
        "static void preserve(struct context *to, const struct context *from, uint32_t list)",
        "{",
        "    (void)to, (void)from;",
        "    switch (list) {",
    ]
    for number, terms in layout.program.field_lists.items():
        lines.append(f"    case {number}:")
        for term in terms:
            path = _path(layout, term)
            lines.append(f"        {path.replace('c->', 'to->', 1)} = {path.replace('c->', 'from->', 1)};")
        lines.append("        break;")
    return [*lines, "    default:", "        break;", "    }", "}", ""]


def _path(layout: Layout, term: Term) -> str:
    if term.kind == "field":
        return layout.field(*term.value)[0]
    if term.kind == "header":
        return layout.place(term.value).path
    raise JsonError(f"a {term.kind} in a field list")


def digest_bytes(layout: Layout) -> int:
    """The most that `digest_read` writes."""
    lists = [terms for _, terms in layout.program.digests.values()]
    return max((sum((_element(layout, t)[1] + 7) // 8 for t in terms) for terms in lists), default=0)


def _element(layout: Layout, term: Term) -> tuple[str, int]:
    """C for an element of a digest, and its bits."""
    if term.kind == "hexstr":
        return modular(term.bits).literal(term.value), term.bits
    if term.kind != "field":
        raise JsonError(f"a {term.kind} in a digest")
    path, own = layout.field(*term.value)
    return pattern(path, own), own.bits


def _digest_read(layout: Layout) -> list[str]:
    lines = [
        "static size_t digest_read(struct p4_instance *s, const struct p4_packet *packet, uint32_t list,",
        "                          uint8_t *data)",
        "{",
        "    const struct context *c = packet->context;",
        "    (void)s, (void)c, (void)data;",
        "    switch (list) {",
    ]
    for number, (_, terms) in layout.program.digests.items():
        lines.append(f"    case {number}:")
        at = 0
        for term in terms:
            code, bits = _element(layout, term)
            count = (bits + 7) // 8
            if bits > 128:
                lines.append(f"        wide_store(data, {8 * at}, {8 * count}, {code});")
            else:
                lines.append(f"        store_be{'128' if bits > 64 else ''}(data + {at}, {count}, {code});")
            at += count
        lines.append(f"        return {at};")
    return [*lines, "    default:", "        return 0;", "    }", "}", ""]
