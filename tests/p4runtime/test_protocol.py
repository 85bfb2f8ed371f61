"""What the P4Runtime specification asks of a server: arbitration, pipelines, codes of errors, batches, byte strings."""

import contextlib
import json
import queue
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4i, p4r
from google.protobuf import any_pb2
from grpc import StatusCode

from tests.p4runtime.client import Client, codes_of, errors_of, uint128
from tests.p4runtime.rig import DEVICE, EVERYTHING, Rig, config_of, frame, ids, note_of, value_of

ID = ids(EVERYTHING)
STEP = 10
ACTION = p4r.SetForwardingPipelineConfigRequest
CPU = 0xFFFFFFFD


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Rig() as made:
        yield made


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    """The primary one."""
    with Client(rig.address, 5) as made:
        yield made.becomes_primary()


def call(name: str, *values: int | bytes) -> p4r.Action:
    params = [
        p4r.Action.Param(param_id=at, value=value if isinstance(value, bytes) else value.to_bytes(2, "big"))
        for at, value in enumerate(values, 1)
    ]
    return p4r.Action(action_id=ID[name], params=params)


def step(name: str, *values: int | bytes, number: int | bytes = STEP) -> p4r.Entity:
    """An entry of `steps`."""
    value = number if isinstance(number, bytes) else bytes([number])
    match = p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=value))
    action = p4r.TableAction(action=call(name, *values))
    return p4r.Entity(table_entry=p4r.TableEntry(table_id=ID["steps"], match=[match], action=action))


def table(name: str, *match: p4r.FieldMatch, action: Any = None, **fields: Any) -> p4r.Entity:
    entry = p4r.TableEntry(table_id=ID[name], match=match, **fields)
    if action is not None:
        entry.action.CopyFrom(action if isinstance(action, p4r.TableAction) else p4r.TableAction(action=action))
    return p4r.Entity(table_entry=entry)


def exact(value: bytes, field: int = 1) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, exact=p4r.FieldMatch.Exact(value=value))


def lpm(value: bytes, prefix: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=1, lpm=p4r.FieldMatch.LPM(value=value, prefix_len=prefix))


def ternary(value: bytes, mask: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=1, ternary=p4r.FieldMatch.Ternary(value=value, mask=mask))


def between(low: bytes, high: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=2, range=p4r.FieldMatch.Range(low=low, high=high))


def refused(work: Callable[[], object]) -> str:
    """The code of a call, or of the one update that it had."""
    with pytest.raises(grpc.RpcError) as caught:
        work()
    codes = codes_of(caught.value)
    if codes:
        assert caught.value.code() == StatusCode.UNKNOWN
        assert len(codes) == 1
        assert errors_of(caught.value)[0].message
        return codes[0]
    return str(caught.value.code().name)


class TestArbitration:
    def test_the_highest_election_id_is_primary_and_others_are_told(self, rig: Rig) -> None:
        with Client(rig.address, 5) as low, Client(rig.address, 9) as high, Client(rig.address) as never:
            low.becomes_primary()
            never.arbitrate()
            assert never.status() == (StatusCode.ALREADY_EXISTS, 5)
            high.becomes_primary()
            assert low.status() == (StatusCode.ALREADY_EXISTS, 9)
            assert never.status() == (StatusCode.ALREADY_EXISTS, 9)
            assert refused(lambda: low.insert(step("punt"))) == "PERMISSION_DENIED"
            high.insert(step("punt"))

    def test_when_the_primary_goes_nobody_is_until_one_claims_it(self, rig: Rig) -> None:
        with Client(rig.address, 5) as low:
            with Client(rig.address, 1 << 100) as high:
                high.becomes_primary()
                low.arbitrate()
                assert low.status() == (StatusCode.ALREADY_EXISTS, 1 << 100)
            assert low.status() == (StatusCode.NOT_FOUND, 1 << 100)
            assert refused(lambda: low.insert(step("punt"))) == "PERMISSION_DENIED"
            low.arbitrate()
            assert low.status() == (StatusCode.NOT_FOUND, 1 << 100), "an id below the highest ever is a backup's"
            low.election = 1 << 100
            low.becomes_primary()

    def test_a_primary_can_step_down(self, rig: Rig) -> None:
        with Client(rig.address, 5) as one, Client(rig.address, 3) as two:
            one.becomes_primary()
            two.arbitrate()
            two.status()
            one.election = 2
            one.arbitrate()
            assert one.status() == two.status() == (StatusCode.NOT_FOUND, 5)

    def test_an_election_id_is_one_clients(self, rig: Rig, client: Client) -> None:
        with Client(rig.address, 5) as other:
            other.arbitrate()
            assert other.ends() == StatusCode.INVALID_ARGUMENT
        client.insert(step("punt"))

    @pytest.mark.parametrize(
        ("said", "code"),
        [
            ({"device": 99}, StatusCode.NOT_FOUND),
            ({"role": p4r.Role(name="mine")}, StatusCode.UNIMPLEMENTED),
            ({"role": p4r.Role(config=any_pb2.Any(type_url="x/y"))}, StatusCode.UNIMPLEMENTED),
        ],
    )
    def test_what_is_no_arbitration_here_ends_the_stream(
        self, rig: Rig, said: dict[str, Any], code: StatusCode
    ) -> None:
        with Client(rig.address, 5) as one:
            one.arbitrate(**said)
            assert one.ends() == code

    def test_a_stream_begins_with_an_arbitration_and_stays_with_its_device(self, rig: Rig, client: Client) -> None:
        with Client(rig.address, 6) as other:
            other.say(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x")))
            assert other.ends() == StatusCode.FAILED_PRECONDITION
        client.arbitrate(device=8)
        assert client.ends() == StatusCode.FAILED_PRECONDITION

    def test_there_is_an_end_to_clients(self, rig: Rig) -> None:
        clients = [Client(rig.address, number) for number in range(17)]
        for each in clients[:16]:
            each.arbitrate()
            each.status()
        clients[16].arbitrate()
        assert clients[16].ends() == StatusCode.RESOURCE_EXHAUSTED
        for each in clients:
            each.__exit__()

    def test_only_the_primary_clients_packets_go_out(self, rig: Rig) -> None:
        with Client(rig.address, 5) as primary, Client(rig.address, 2) as backup:
            primary.becomes_primary()
            backup.arbitrate()
            backup.status()
            backup.say(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x")))
            error = backup.next().error
            assert error.canonical_code == StatusCode.PERMISSION_DENIED.value[0]
            assert error.packet_out.packet_out.payload == b"x"


class TestPipelines:
    def get(self, client: Client, kind: int = 0) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=DEVICE, response_type=kind)
        return client.stub.GetForwardingPipelineConfig(request).config

    def config(self, cookie: int = 3) -> p4r.ForwardingPipelineConfig:
        config = config_of(EVERYTHING)
        config.cookie.cookie = cookie
        return config

    def test_what_is_got_is_what_was_set(self, client: Client) -> None:
        assert not self.get(client).HasField("cookie")
        config = self.config()
        client.configure(ACTION.VERIFY_AND_COMMIT, config)
        kinds = p4r.GetForwardingPipelineConfigRequest
        assert self.get(client) == config
        assert self.get(client, kinds.COOKIE_ONLY) == p4r.ForwardingPipelineConfig(cookie=config.cookie)
        assert not self.get(client, kinds.P4INFO_AND_COOKIE).p4_device_config
        assert not self.get(client, kinds.DEVICE_CONFIG_AND_COOKIE).HasField("p4info")

    def test_verify_changes_nothing(self, rig: Rig, client: Client) -> None:
        client.insert(step("forward", 2))
        client.configure(ACTION.VERIFY, self.config())
        assert rig.send(frame(STEP)) == [(2, frame(STEP))]
        assert not self.get(client).HasField("cookie")

    def test_a_saved_pipeline_takes_the_requests_and_a_commit_has_it_in_force(self, rig: Rig, client: Client) -> None:
        client.insert(step("forward", 2))
        client.configure(ACTION.VERIFY_AND_SAVE, self.config())
        assert client.read(table("steps")) == []
        client.insert(step("spread", 7))
        group = p4r.MulticastGroupEntry(multicast_group_id=7, replicas=[p4r.Replica(port=b"\x03", instance=5)])
        client.insert(
            p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=group))
        )
        assert rig.send(frame(STEP)) == [(2, frame(STEP))], "packets go by what was there"
        client.configure(ACTION.COMMIT)
        assert [(port, value_of(sent)) for port, sent in rig.send(frame(STEP))] == [(3, 5)]
        assert refused(lambda: client.configure(ACTION.COMMIT)) == "NOT_FOUND"

    def test_reconciling_keeps_what_was_written(self, rig: Rig, client: Client) -> None:
        member = p4r.ActionProfileMember(action_profile_id=ID["selector"], member_id=4, action=call("forward", 4))
        group = p4r.ActionProfileGroup(action_profile_id=ID["selector"], group_id=8)
        group.members.add(member_id=4, weight=2)
        copies = p4r.MulticastGroupEntry(multicast_group_id=7, replicas=[p4r.Replica(port=b"\x03", instance=5)])
        wrote = [
            step("tally", 2, 3),
            p4r.Entity(action_profile_member=member),
            p4r.Entity(action_profile_group=group),
            table("by_group", exact(b"\x21"), action=p4r.TableAction(action_profile_group_id=8)),
            table("choices", between(b"\x01", b"\x02"), priority=5, action=call("mark", b"\x01"), metadata=b"me"),
            table(
                "prefixes",
                lpm(b"\x0a" + bytes(5), 8),
                action=call("mark", b"\x02"),
                meter_config=p4r.MeterConfig(cir=1, pir=2),
            ),
            p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=copies)),
            p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=ID["learned_t"], config={"max_list_size": 3})),
        ]
        client.insert(*wrote)
        set_up = [
            p4r.Entity(
                register_entry={"register_id": ID["memory"], "index": {"index": 9}, "data": {"bitstring": b"\x42"}}
            ),
            p4r.Entity(meter_entry={"meter_id": ID["colours"], "index": {"index": 1}, "config": {"cir": 1, "pir": 1}}),
            p4r.Entity(
                value_set_entry={"value_set_id": ID["special_kinds"], "members": [{"match": [exact(b"\x12\x34")]}]}
            ),
            table("aging", is_default_action=True, action=call("mark", b"\x04")),
        ]
        client.modify(*set_up)
        rig.send(frame(STEP))
        asked = [
            table("steps", counter_data=p4r.CounterData()),
            *(table(name) for name in ("by_group", "choices")),
            table("prefixes", meter_config=p4r.MeterConfig()),
            table("aging", is_default_action=True),
            p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
            p4r.Entity(counter_entry=p4r.CounterEntry()),
            p4r.Entity(register_entry=p4r.RegisterEntry(register_id=ID["memory"])),
            p4r.Entity(meter_entry=p4r.MeterEntry()),
            p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
            p4r.Entity(digest_entry=p4r.DigestEntry()),
            p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
        ]
        before = client.read(*asked)
        assert len(before) > 60
        client.configure(ACTION.RECONCILE_AND_COMMIT, self.config(8))
        assert client.read(*asked) == before
        assert self.get(client).cookie.cookie == 8
        assert [port for port, _ in rig.send(frame(STEP))] == [2]
        assert [port for port, _ in rig.send(frame(0x21))] == [4]

    def test_state_that_has_no_place_is_told(self, rig: Rig, client: Client) -> None:
        client.insert(step("forward", 2))
        config = self.config()
        document = json.loads(config.p4_device_config)
        [own] = [t for p in document["pipelines"] for t in p["tables"] if t["name"] == "MyIngress.steps"]
        own["max_size"] = 0
        config.p4_device_config = json.dumps(document).encode()
        assert refused(lambda: client.configure(ACTION.RECONCILE_AND_COMMIT, config)) == "INVALID_ARGUMENT"
        assert rig.send(frame(STEP)) == [(2, frame(STEP))]
        assert len(client.read(table("steps"))) == 1

    @pytest.mark.parametrize(
        "broken",
        [
            b"",
            b"not JSON",
            b"[]",
            b"{}",
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"pipelines": [], "header_types": [{"name": 1}]}',
            b'{"program": 5, "pipelines": {}}',
        ],
    )
    def test_what_is_no_program_is_refused(self, client: Client, broken: bytes) -> None:
        config = self.config()
        config.p4_device_config = broken
        for action in (ACTION.VERIFY, ACTION.VERIFY_AND_SAVE, ACTION.VERIFY_AND_COMMIT, ACTION.RECONCILE_AND_COMMIT):
            assert refused(lambda action=action: client.configure(action, config)) == "INVALID_ARGUMENT"
        client.insert(step("punt"))

    def test_a_p4info_of_another_program_is_refused(self, client: Client) -> None:
        def changed(change: Callable[[p4i.P4Info], None]) -> p4r.ForwardingPipelineConfig:
            config = self.config()
            change(config.p4info)
            return config

        def rename(info: p4i.P4Info) -> None:
            info.tables[0].preamble.name = "MyIngress.another"

        def collide(info: p4i.P4Info) -> None:
            info.tables[0].preamble.id = info.tables[1].preamble.id

        def mismatch(info: p4i.P4Info) -> None:
            info.tables[0].match_fields[0].match_type = p4i.MatchField.LPM

        def forget(info: p4i.P4Info) -> None:
            del info.actions[2:]

        for change in (rename, collide, mismatch, forget):
            config = changed(change)
            assert (
                refused(lambda config=config: client.configure(ACTION.VERIFY_AND_COMMIT, config)) == "INVALID_ARGUMENT"
            )

        def translate(info: p4i.P4Info) -> None:
            info.tables[0].match_fields[0].bitwidth = 0

        assert refused(lambda: client.configure(ACTION.VERIFY, changed(translate))) == "UNIMPLEMENTED"

    def test_who_may_set_what(self, rig: Rig, client: Client) -> None:
        assert refused(lambda: client.configure(ACTION.UNSPECIFIED, self.config())) == "INVALID_ARGUMENT"
        assert refused(lambda: client.configure(ACTION.VERIFY)) == "INVALID_ARGUMENT"
        assert refused(lambda: client.configure(ACTION.COMMIT, self.config())) == "INVALID_ARGUMENT"
        with Client(rig.address, 4) as other:
            assert refused(lambda: other.configure(ACTION.VERIFY, self.config())) == "PERMISSION_DENIED"

    def test_without_a_pipeline_nothing_is_read_or_written(self) -> None:
        with Rig(set_up=False) as rig, Client(rig.address, 1) as client:
            client.becomes_primary()
            assert self.get(client) == p4r.ForwardingPipelineConfig()
            assert refused(lambda: client.insert(step("punt"))) == "FAILED_PRECONDITION"
            assert refused(lambda: client.read(table("steps"))) == "FAILED_PRECONDITION"
            client.configure(ACTION.VERIFY_AND_COMMIT, self.config())
            client.insert(step("forward", 2))
            assert rig.send(frame(STEP)) == [(2, frame(STEP))]

    def test_capabilities(self, client: Client) -> None:
        assert client.stub.Capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version == "1.5.0"
        assert refused(lambda: client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=1))) == "NOT_FOUND"


class TestBatches:
    def test_each_update_has_its_error(self, rig: Rig, client: Client) -> None:
        good, twice, bad = step("forward", 2), step("forward", 3), table("steps", exact(b"\x01"))
        with pytest.raises(grpc.RpcError) as caught:
            client.insert(good, twice, bad)
        assert caught.value.code() == StatusCode.UNKNOWN
        assert codes_of(caught.value) == ["OK", "ALREADY_EXISTS", "INVALID_ARGUMENT"]
        assert rig.send(frame(STEP)) == [(2, frame(STEP))]

    @pytest.mark.parametrize("atomicity", [p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC])
    def test_a_batch_that_fails_is_taken_back(self, rig: Rig, client: Client, atomicity: int) -> None:
        """Every kind of update is, so that all reads as before."""
        member = p4r.ActionProfileMember(action_profile_id=ID["selector"], member_id=4, action=call("forward", 4))
        group = p4r.ActionProfileGroup(action_profile_id=ID["selector"], group_id=8)
        group.members.add(member_id=4, weight=1)
        copies = p4r.MulticastGroupEntry(multicast_group_id=7, replicas=[p4r.Replica(port=b"\x03")])
        clones = p4r.CloneSessionEntry(session_id=100, replicas=[p4r.Replica(port=b"\x03")])
        engine = p4r.PacketReplicationEngineEntry
        grouped = p4r.TableAction(action_profile_group_id=8)
        there = [
            step("forward", 2),
            p4r.Entity(action_profile_member=member),
            p4r.Entity(action_profile_group=group),
            table("by_group", exact(b"\x21"), action=grouped),
            p4r.Entity(packet_replication_engine_entry=engine(multicast_group_entry=copies)),
            p4r.Entity(packet_replication_engine_entry=engine(clone_session_entry=clones)),
        ]
        client.insert(*there)
        rig.send(frame(STEP))
        other = p4r.MulticastGroupEntry(multicast_group_id=7, replicas=[p4r.Replica(port=b"\x04")])
        insert, modify, delete = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
        number = {"index": {"index": 3}}
        batch = [
            (delete, step("forward", 2)),
            (insert, step("forward", 3)),
            (modify, step("forward", 4)),
            (insert, step("forward", 4, number=1)),
            (delete, table("by_group", exact(b"\x21"))),
            (delete, there[2]),
            (delete, there[1]),
            (modify, p4r.Entity(packet_replication_engine_entry=engine(multicast_group_entry=other))),
            (delete, there[5]),
            (modify, p4r.Entity(register_entry={"register_id": ID["memory"], "data": {"bitstring": b"\x07"}})),
            (modify, p4r.Entity(counter_entry={"counter_id": ID["tallies"], "data": {"packet_count": 7}, **number})),
            (modify, p4r.Entity(meter_entry={"meter_id": ID["colours"], "config": {"cir": 1, "pir": 1}, **number})),
            (
                modify,
                p4r.Entity(
                    value_set_entry={"value_set_id": ID["special_kinds"], "members": [{"match": [exact(b"\x12")]}]}
                ),
            ),
            (modify, table("aging", is_default_action=True, action=call("mark", b"\x04"))),
            (insert, p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=ID["learned_t"]))),
            (insert, table("choices", between(b"\x01", b"\x02"), priority=5, action=call("mark", b"\x01"))),
            (delete, step("forward", number=99)),
            (insert, step("forward", 1, number=98)),
        ]
        asked = [
            table("steps", counter_data=p4r.CounterData()),
            *(table(name) for name in ("by_group", "choices")),
            table("aging", is_default_action=True),
            p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
            p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
            p4r.Entity(counter_entry=p4r.CounterEntry()),
            p4r.Entity(register_entry=p4r.RegisterEntry()),
            p4r.Entity(meter_entry=p4r.MeterEntry()),
            p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
            p4r.Entity(digest_entry=p4r.DigestEntry()),
            p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
            p4r.Entity(packet_replication_engine_entry={"clone_session_entry": {}}),
        ]
        before = client.read(*asked)
        with pytest.raises(grpc.RpcError) as caught:
            client.write(*(p4r.Update(type=kind, entity=entity) for kind, entity in batch), atomicity=atomicity)
        assert codes_of(caught.value) == ["ABORTED"] * 16 + ["NOT_FOUND", "ABORTED"]
        assert client.read(*asked) == before
        assert rig.send(frame(STEP)) == [(2, frame(STEP))]
        assert [port for port, _ in rig.send(frame(0x21))] == [4]
        client.write(*(p4r.Update(type=kind, entity=entity) for kind, entity in batch[:16]), atomicity=atomicity)
        assert [(port, note_of(sent)) for port, sent in rig.send(frame(STEP))] == [(4, 0x04)]

    def test_requests_that_fail_do_not_keep_others_from_being_answered(self, client: Client) -> None:
        client.insert(step("forward", 2))
        unknown = p4r.Entity(table_entry=p4r.TableEntry(table_id=5))
        request = p4r.ReadRequest(device_id=DEVICE, entities=[unknown, table("steps"), p4r.Entity()])
        responses = client.stub.Read(request)
        assert [entity.table_entry.table_id for entity in next(responses).entities] == [ID["steps"]]
        with pytest.raises(grpc.RpcError) as caught:
            next(responses)
        assert caught.value.code() == StatusCode.UNKNOWN
        assert codes_of(caught.value) == ["INVALID_ARGUMENT", "OK", "INVALID_ARGUMENT"]


def _entries() -> list[tuple[str, p4r.Entity]]:
    """What may not be inserted, each with the code that the specification has for it."""
    profile = ID["selector"]

    def member(number: int, action: p4r.Action | None = None, **fields: Any) -> p4r.Entity:
        return p4r.Entity(
            action_profile_member={"action_profile_id": profile, "member_id": number, "action": action, **fields}
        )

    def group(number: int, *members: dict[str, Any], **fields: Any) -> p4r.Entity:
        return p4r.Entity(
            action_profile_group={"action_profile_id": profile, "group_id": number, "members": members, **fields}
        )

    def copies(number: int, *replicas: dict[str, Any]) -> p4r.Entity:
        return p4r.Entity(
            packet_replication_engine_entry={
                "multicast_group_entry": {"multicast_group_id": number, "replicas": replicas}
            }
        )

    def clones(number: int, **fields: Any) -> p4r.Entity:
        return p4r.Entity(packet_replication_engine_entry={"clone_session_entry": {"session_id": number, **fields}})

    mark = call("mark", b"\x01")
    one, everything = b"\x01", b"\xff\xff"
    return [
        ("INVALID_ARGUMENT", p4r.Entity()),
        ("UNIMPLEMENTED", p4r.Entity(extern_entry=p4r.ExternEntry(extern_id=1))),
        ("INVALID_ARGUMENT", p4r.Entity(table_entry=p4r.TableEntry(table_id=ID["forward"]))),
        ("INVALID_ARGUMENT", table("steps", action=call("punt"))),  # an exact field is left out
        ("INVALID_ARGUMENT", table("steps", exact(one), exact(one), action=call("punt"))),
        ("INVALID_ARGUMENT", table("steps", exact(one, 2), action=call("punt"))),
        ("INVALID_ARGUMENT", table("steps", lpm(one, 8), action=call("punt"))),
        ("OUT_OF_RANGE", table("steps", exact(b""), action=call("punt"))),
        ("OUT_OF_RANGE", table("steps", exact(b"\x01\x00"), action=call("punt"))),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("punt"), priority=1)),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("punt"), is_const=True)),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("punt"), idle_timeout_ns=1)),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("punt"), time_since_last_hit={})),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("punt"), meter_config={})),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("punt"), counter_data={"packet_count": -1})),
        ("UNIMPLEMENTED", table("steps", exact(one), action=call("punt"), meter_counter_data={})),
        ("INVALID_ARGUMENT", table("steps", exact(one))),  # no action
        ("INVALID_ARGUMENT", table("steps", exact(one), action=p4r.TableAction())),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=p4r.TableAction(action_profile_member_id=1))),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("mark", b"\x01"))),  # of other tables
        ("PERMISSION_DENIED", table("steps", exact(one), action=call("NoAction"))),  # @defaultonly
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("forward"))),
        ("INVALID_ARGUMENT", table("steps", exact(one), action=call("forward", 1, 2))),
        ("OUT_OF_RANGE", table("steps", exact(one), action=call("forward", 512))),
        ("OUT_OF_RANGE", table("steps", exact(one), action=call("forward", b""))),
        ("INVALID_ARGUMENT", table("steps", is_default_action=True, action=call("punt"))),  # it is modified only
        ("INVALID_ARGUMENT", table("prefixes", lpm(one, 0), action=mark)),
        ("INVALID_ARGUMENT", table("prefixes", lpm(one, 49), action=mark)),
        ("INVALID_ARGUMENT", table("prefixes", lpm(one, 8), action=mark)),
        ("INVALID_ARGUMENT", table("choices", ternary(one, one), action=mark)),  # no priority
        ("INVALID_ARGUMENT", table("choices", ternary(one, one), action=mark, priority=-1)),
        ("INVALID_ARGUMENT", table("choices", ternary(b"\x03", one), action=mark, priority=1)),
        ("INVALID_ARGUMENT", table("choices", ternary(b"\x00", b"\x00"), action=mark, priority=1)),
        ("INVALID_ARGUMENT", table("choices", between(b"\x02", one), action=mark, priority=1)),
        ("INVALID_ARGUMENT", table("choices", between(b"\x00", everything), action=mark, priority=1)),
        ("INVALID_ARGUMENT", member(0, call("forward", 1))),
        ("INVALID_ARGUMENT", member(1)),
        ("INVALID_ARGUMENT", member(1, call("punt"))),
        ("INVALID_ARGUMENT", p4r.Entity(action_profile_member={"action_profile_id": 3, "member_id": 1})),
        ("INVALID_ARGUMENT", group(0)),
        ("NOT_FOUND", group(1, {"member_id": 77, "weight": 1})),
        ("INVALID_ARGUMENT", group(1, max_size=-1)),
        ("INVALID_ARGUMENT", p4r.Entity(action_profile_group={"action_profile_id": ID["profile"], "group_id": 1})),
        ("NOT_FOUND", table("by_group", exact(one), action=p4r.TableAction(action_profile_group_id=3))),
        ("NOT_FOUND", table("by_member", exact(one), action=p4r.TableAction(action_profile_member_id=3))),
        ("INVALID_ARGUMENT", table("by_member", exact(one), action=p4r.TableAction(action_profile_group_id=3))),
        ("INVALID_ARGUMENT", table("by_group", exact(one), action=call("forward", 1))),
        ("INVALID_ARGUMENT", copies(0)),
        ("INVALID_ARGUMENT", copies(1 << 16)),
        ("INVALID_ARGUMENT", copies(1, {"port": b"\x63"})),
        ("INVALID_ARGUMENT", copies(1, {"port": one, "instance": 1 << 16})),
        ("INVALID_ARGUMENT", copies(1, {"port": one}, {"egress_port": 1})),
        ("UNIMPLEMENTED", copies(1, {"port": one, "backup_replicas": [{"port": b"\x02"}]})),
        ("INVALID_ARGUMENT", clones(0)),
        ("UNIMPLEMENTED", clones(1, class_of_service=1)),
        ("UNIMPLEMENTED", clones(1, packet_length_bytes=64)),
        ("INVALID_ARGUMENT", p4r.Entity(packet_replication_engine_entry={})),
        ("INVALID_ARGUMENT", p4r.Entity(counter_entry={"counter_id": ID["tallies"], "index": {"index": 0}})),
        ("INVALID_ARGUMENT", p4r.Entity(register_entry={"register_id": ID["memory"], "data": {"bitstring": one}})),
        ("INVALID_ARGUMENT", p4r.Entity(value_set_entry={"value_set_id": ID["special_kinds"]})),
        ("INVALID_ARGUMENT", p4r.Entity(digest_entry={"digest_id": 1})),
        ("INVALID_ARGUMENT", p4r.Entity(digest_entry={"digest_id": ID["learned_t"], "config": {"max_timeout_ns": -1}})),
        ("INVALID_ARGUMENT", p4r.Entity(direct_counter_entry={"table_entry": step("punt").table_entry})),
    ]


class TestErrors:
    @pytest.mark.parametrize(("code", "entity"), _entries())
    def test_an_insert_that_may_not_be(self, one_for_all: Client, code: str, entity: p4r.Entity) -> None:
        assert refused(lambda: one_for_all.insert(entity)) == code

    @pytest.mark.parametrize(
        ("code", "entity"),
        [
            ("NOT_FOUND", step("punt")),
            (
                "OUT_OF_RANGE",
                p4r.Entity(counter_entry={"counter_id": ID["tallies"], "index": {"index": 16}, "data": {}}),
            ),
            (
                "INVALID_ARGUMENT",
                p4r.Entity(counter_entry={"counter_id": ID["tallies"], "index": {"index": -1}, "data": {}}),
            ),
            ("INVALID_ARGUMENT", p4r.Entity(counter_entry={"counter_id": 3, "data": {}})),
            (
                "OUT_OF_RANGE",
                p4r.Entity(register_entry={"register_id": ID["memory"], "data": {"bitstring": b"\1\0\0"}}),
            ),
            ("INVALID_ARGUMENT", p4r.Entity(register_entry={"register_id": ID["memory"], "data": {"bool": True}})),
            ("INVALID_ARGUMENT", p4r.Entity(register_entry={"register_id": ID["memory"]})),
            ("OUT_OF_RANGE", p4r.Entity(register_entry={"register_id": ID["signs"], "data": {"bitstring": b"\0\x80"}})),
            ("INVALID_ARGUMENT", p4r.Entity(meter_entry={"meter_id": ID["colours"], "config": {"cir": 2, "pir": 1}})),
            ("INVALID_ARGUMENT", p4r.Entity(meter_entry={"meter_id": ID["colours"], "config": {"eburst": 1}})),
            ("UNIMPLEMENTED", p4r.Entity(meter_entry={"meter_id": ID["colours"], "counter_data": {}})),
            (
                "PERMISSION_DENIED",
                table("fixed_ones", ternary(b"\xff", b"\xff"), priority=2, action=call("mark", b"\1")),
            ),
            ("PERMISSION_DENIED", table("fixed_ones", is_default_action=True, action=call("mark", b"\1"))),
            ("PERMISSION_DENIED", table("choices", is_default_action=True, action=call("drop"))),  # @tableonly
            ("INVALID_ARGUMENT", table("steps", is_default_action=True, priority=1)),
            ("INVALID_ARGUMENT", table("by_member", is_default_action=True, action=call("NoAction"))),
            ("NOT_FOUND", p4r.Entity(direct_counter_entry={"table_entry": step("punt").table_entry, "data": {}})),
            ("NOT_FOUND", p4r.Entity(digest_entry={"digest_id": ID["learned_t"]})),
            (
                "RESOURCE_EXHAUSTED",
                p4r.Entity(
                    value_set_entry={
                        "value_set_id": ID["special_kinds"],
                        "members": [{"match": [exact(bytes([number]))]} for number in range(1, 6)],
                    }
                ),
            ),
            (
                "ALREADY_EXISTS",
                p4r.Entity(
                    value_set_entry={"value_set_id": ID["special_kinds"], "members": [{"match": [exact(b"\1")]}] * 2}
                ),
            ),
        ],
    )
    def test_a_modification_that_may_not_be(self, one_for_all: Client, code: str, entity: p4r.Entity) -> None:
        assert refused(lambda: one_for_all.modify(entity)) == code

    def test_an_update_has_a_type(self, one_for_all: Client) -> None:
        for kind in (p4r.Update.UNSPECIFIED, 9):
            assert (
                refused(lambda kind=kind: one_for_all.write(p4r.Update(type=kind, entity=step("punt"))))
                == "INVALID_ARGUMENT"
            )

    def test_whole_requests(self, one_for_all: Client) -> None:
        assert refused(lambda: one_for_all.insert(step("punt"), device=99)) == "NOT_FOUND"
        assert refused(lambda: one_for_all.insert(step("punt"), role="mine")) == "NOT_FOUND"
        assert refused(lambda: one_for_all.insert(step("punt"), atomicity=7)) == "INVALID_ARGUMENT"
        one_for_all.write()

    def test_a_full_table(self, client: Client) -> None:
        for number in range(8):
            client.insert(table("prefixes", lpm(bytes([number]) + bytes(5), 8), action=call("mark", b"\1")))
        ninth = table("prefixes", lpm(b"\x40" + bytes(5), 8), action=call("mark", b"\1"))
        assert refused(lambda: client.insert(ninth)) == "RESOURCE_EXHAUSTED"

    def test_packet_outs(self, client: Client) -> None:
        def error_of(**packet: Any) -> int:
            client.say(p4r.StreamMessageRequest(packet=p4r.PacketOut(**packet)))
            error = client.next().error
            assert error.HasField("packet_out")
            return int(error.canonical_code)

        port, unused = {"metadata_id": 1, "value": b"\x01"}, {"metadata_id": 2, "value": b"\x00"}
        invalid, range_ = StatusCode.INVALID_ARGUMENT.value[0], StatusCode.OUT_OF_RANGE.value[0]
        assert error_of(payload=b"x", metadata=[port]) == invalid
        assert error_of(payload=b"x", metadata=[port, unused, {"metadata_id": 3, "value": b"x"}]) == invalid
        assert error_of(payload=b"x", metadata=[port, port]) == invalid
        assert error_of(payload=b"", metadata=[port, unused]) == invalid
        assert error_of(payload=bytes(1 << 20), metadata=[port, unused]) == invalid
        assert error_of(payload=b"x", metadata=[{"metadata_id": 1, "value": b"\x02\x00"}, unused]) == range_
        client.say(p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=1)))
        assert client.next().error.HasField("digest_list_ack")
        client.say(p4r.StreamMessageRequest(other=any_pb2.Any()))
        assert client.next().error.canonical_code == StatusCode.UNIMPLEMENTED.value[0]


@pytest.fixture(scope="module")
def one_for_all() -> Iterator[Client]:
    """A client of a switch that no test changes."""
    with Rig() as rig, Client(rig.address, 5) as made:
        yield made.becomes_primary()


def test_byte_strings_of_any_length_are_read_back_shortest(client: Client) -> None:
    client.insert(step("forward", b"\x00\x00\x00\x02", number=b"\x00\x00\x0a"))
    [read] = client.read(table("steps"))
    assert read.table_entry.match[0].exact.value == b"\x0a"
    assert read.table_entry.action.action.params[0].value == b"\x02"
    client.delete(step("forward", number=b"\x0a"))
    assert client.read(table("steps")) == []


def test_a_member_of_a_clone_session_may_be_the_controller(rig: Rig, client: Client) -> None:
    replica = p4r.Replica(port=CPU.to_bytes(4, "big"), instance=1)
    session = {"clone_session_entry": p4r.CloneSessionEntry(session_id=100, replicas=[replica])}
    client.insert(step("mirror", 2), p4r.Entity(packet_replication_engine_entry=session))
    rig.send(frame(STEP), port=3)
    packet = client.next().packet
    assert packet.payload == frame(STEP)
    assert [each.value for each in packet.metadata] == [b"\x00", b"\x05"], "v1model: a clone keeps no metadata unasked"


def test_noise_is_refused_and_the_server_goes_on(rig: Rig, client: Client) -> None:
    """Requests with bytes of their own changed, dropped or doubled: each is answered, and then a good one is too."""
    draw = random.Random(7)
    requests = [
        p4r.WriteRequest(
            device_id=DEVICE, election_id=uint128(5), updates=[p4r.Update(type=p4r.Update.INSERT, entity=entity)]
        ).SerializeToString()
        for _, entity in _entries()
    ]
    channel = grpc.insecure_channel(rig.address)
    calls = [
        channel.unary_unary("/p4.v1.P4Runtime/Write"),
        channel.unary_stream("/p4.v1.P4Runtime/Read"),
        channel.unary_unary("/p4.v1.P4Runtime/GetForwardingPipelineConfig"),
        channel.unary_unary("/p4.v1.P4Runtime/NoSuchCall"),
    ]
    unanswered = 0
    for _ in range(400):
        noise = bytearray(draw.choice(requests))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(noise))
            noise[at : at + draw.randrange(3)] = draw.randbytes(draw.randrange(4))
        try:
            answer = draw.choice(calls)(bytes(noise), timeout=30)
            if not isinstance(answer, bytes):
                list(answer)
        except grpc.RpcError as error:
            unanswered += error.code() in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED)
    channel.close()
    assert unanswered == 0
    client.delete(*(entity for entity in client.read(table("steps"))))
    client.insert(step("forward", 2))
    assert rig.send(frame(STEP)) == [(2, frame(STEP))]


def test_noise_on_a_stream_ends_that_stream_alone(rig: Rig, client: Client) -> None:
    draw = random.Random(3)
    with grpc.insecure_channel(rig.address) as channel:
        stream = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE, election_id=uint128(1))
        begins = p4r.StreamMessageRequest(arbitration=arbitration).SerializeToString()
        ends = []
        for _ in range(30):
            noise = [draw.randbytes(draw.randrange(1, 40)) for _ in range(3)]
            with contextlib.suppress(grpc.RpcError):
                answers = stream(iter([begins, *noise]), timeout=10)
                list(answers)
            ends.append(answers.code())
        assert StatusCode.DEADLINE_EXCEEDED not in ends
        assert StatusCode.UNAVAILABLE not in ends
    client.insert(step("forward", 2))
    assert rig.send(frame(STEP)) == [(2, frame(STEP))]


def _drawn(draw: random.Random) -> p4r.Update:
    """An update of few things, so that it finds, misses or collides with what is there."""
    number, port = draw.randrange(1, 5), draw.randrange(1, 5)
    forward = call("forward", port)
    member = {"action_profile_id": ID["selector"], "member_id": number, "action": forward}
    members = [
        {"member_id": each, "weight": draw.randrange(1, 3)} for each in draw.sample(range(1, 5), draw.randrange(3))
    ]
    actions = [{"action": call("forward", draw.randrange(1, 5)), "weight": 1} for _ in range(draw.randrange(3))]
    target = draw.choice(
        [
            p4r.TableAction(action_profile_group_id=number),
            p4r.TableAction(action_profile_member_id=number),
            p4r.TableAction(action_profile_action_set={"action_profile_actions": actions}),
        ]
    )
    group = {"action_profile_id": ID["selector"], "group_id": number, "members": members}
    copies = {"multicast_group_id": number, "replicas": [{"egress_port": port}]}
    values = [{"match": [exact(bytes([port]))]}]
    index = {"index": {"index": number}}
    config = {"cir": number, "pir": port + 4}
    entity = draw.choice(
        [
            step("forward", port, number=number),
            table("steps", exact(bytes([number])), action=forward, counter_data={"packet_count": port}, metadata=b"m"),
            table("choices", between(bytes([number]), b"\x09"), priority=port, action=call("mark", bytes([number]))),
            table("prefixes", lpm(bytes([number]) + bytes(5), 8), action=call("mark", b"\1"), meter_config=config),
            table("steps", is_default_action=True, action=draw.choice([None, forward])),
            table("by_group", exact(bytes([number])), action=target),
            p4r.Entity(action_profile_member=member),
            p4r.Entity(action_profile_group=group),
            p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": copies}),
            p4r.Entity(register_entry={"register_id": ID["memory"], "data": {"bitstring": bytes([port])}, **index}),
            p4r.Entity(counter_entry={"counter_id": ID["tallies"], "data": {"packet_count": port}, **index}),
            p4r.Entity(meter_entry={"meter_id": ID["colours"], "config": config, **index}),
            p4r.Entity(value_set_entry={"value_set_id": ID["special_kinds"], "members": values}),
            p4r.Entity(digest_entry={"digest_id": ID["learned_t"], "config": {"max_list_size": port}}),
        ]
    )  # fmt: skip
    return p4r.Update(
        type=draw.choice([p4r.Update.INSERT, p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE]), entity=entity
    )


def test_whatever_is_written_is_taken_back_or_kept_whole(rig: Rig, client: Client) -> None:
    """Drawn batches: one that fails leaves all as it was; at the end all that is there finds its place anew."""
    draw = random.Random(11)
    asked = [
        table("steps", counter_data=p4r.CounterData()),
        table("prefixes", meter_config=p4r.MeterConfig()),
        *(table(name) for name in ("choices", "by_group")),
        table("steps", is_default_action=True),
        p4r.Entity(action_profile_member={}),
        p4r.Entity(action_profile_group={}),
        p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
        *(p4r.Entity(**{kind: {}}) for kind in ("register_entry", "counter_entry", "meter_entry", "value_set_entry")),
        p4r.Entity(digest_entry={}),
    ]

    def state() -> list[bytes]:
        return sorted(entity.SerializeToString(deterministic=True) for entity in client.read(*asked))

    now, kept, back = state(), 0, 0
    codes: set[str] = set()
    for _ in range(250):
        batch = [_drawn(draw) for _ in range(draw.choice([1, 1, 2, 4]))]
        try:
            client.write(*batch, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
            kept += 1
            now = state()
        except grpc.RpcError as error:
            back += 1
            codes |= set(codes_of(error))
        assert state() == now
    assert codes <= {"ABORTED", "ALREADY_EXISTS", "NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION"}
    assert min(kept, back) > 30
    assert len(now) > 65, "61 are elements of arrays, which are there always"
    client.configure(ACTION.RECONCILE_AND_COMMIT, config_of(EVERYTHING))
    assert state() == now
    for number in range(1, 5):
        rig.send(frame(number))


def test_no_packet_sees_half_of_a_batch() -> None:
    """Two tables say the same of each packet, and are changed together, while packets go through a running switch."""
    with Rig(virtual=False) as rig, Client(rig.address, 5) as client:
        client.becomes_primary()

        def pair(bits: int) -> list[p4r.Entity]:
            first = table("prefixes", lpm(b"\x0a" + bytes(5), 8), action=call("mark", bytes([bits])))
            second = table("aging", exact(bytes([STEP])), action=call("mark", bytes([bits << 2])))
            return [first, second]

        client.insert(step("punt"), *pair(1))
        sent = frame(STEP, destination=0x0A << 40)
        memory = {"register_id": ID["memory"], "index": {"index": 1}, "data": {"bitstring": b"\1"}}
        long = [p4r.Entity(register_entry=memory)] * 100  # so that the batch takes as long as many packets
        kind = p4r.WriteRequest(device_id=DEVICE, election_id=uint128(5), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
        for change in range(30):
            del kind.updates[:]
            first, second = pair(1 + change % 2)
            batch = [first, *long, second]
            kind.updates.extend(p4r.Update(type=p4r.Update.MODIFY, entity=each) for each in batch)
            writing = client.stub.Write.future(kind)
            while not writing.done():
                rig.fabric.inject(rig.switch.number, 1, sent)
            writing.result()
            rig.fabric.inject(rig.switch.number, 1, sent)
            time.sleep(0.005)  # for the packets to be told; what is not would be dropped
        notes = []
        with contextlib.suppress(queue.Empty):
            while True:
                notes.append(note_of(client.heard.get(timeout=1).packet.payload))
        assert set(notes) == {0b101, 0b1010}
        assert min(notes.count(0b101), notes.count(0b1010)) >= 15


def test_p4data_of_an_enum_is_not_a_number(one_for_all: Client) -> None:
    data = p4d.P4Data(enum_value=b"\x01")
    entry = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=ID["memory"], data=data))
    assert refused(lambda: one_for_all.modify(entry)) == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "method", ["Write", "Read", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities"]
)
def test_a_request_that_is_none_is_refused_and_nothing_is_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with grpc.insecure_channel(rig.address) as channel:
        kind = channel.unary_stream if method == "Read" else channel.unary_unary
        ask = kind(f"/p4.v1.P4Runtime/{method}")
        work = (
            (lambda: list(ask(b"\xff\xff", timeout=10))) if method == "Read" else (lambda: ask(b"\xff\xff", timeout=10))
        )
        with pytest.raises(grpc.RpcError) as caught:
            work()
    assert caught.value.code() == StatusCode.INVALID_ARGUMENT
    assert "none of P4Runtime's" in caught.value.details()
    assert not caplog.records
