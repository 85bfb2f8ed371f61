// What Testbed asks a bmv2 simple_switch over Thrift: the calls it uses, as the switch numbers and types them.
// Three services share one connection (multiplexed): `standard`, `simple_pre_lag` and `simple_switch`.

enum MatchType { EXACT = 0, LPM = 1, TERNARY = 2, VALID = 3, RANGE = 4 }

struct Exact { 1: binary key }
struct Lpm { 1: binary key, 2: i32 prefix_length }
struct Ternary { 1: binary key, 2: binary mask }
struct Valid { 1: bool key }
struct Range { 1: binary first, 2: binary last }

// `type` says which of the others is there.
struct MatchParameter {
  1: MatchType type
  2: optional Exact exact
  3: optional Lpm lpm
  4: optional Ternary ternary
  5: optional Valid valid
  6: optional Range range
}

struct EntryOptions { 1: optional i32 priority }  // the smallest wins
struct CounterValue { 1: i64 bytes, 2: i64 packets }
struct MeterRate { 1: double units_per_us, 2: i32 burst }
struct Session { 1: optional i32 port, 2: optional i32 group }

exception Refused { 1: i32 code }

service Standard {
  i32 bm_mt_add_entry(1: i32 context, 2: string table, 3: list<MatchParameter> key, 4: string action,
                      5: list<binary> arguments, 6: EntryOptions options) throws (1: Refused refused)
  void bm_mt_modify_entry(1: i32 context, 2: string table, 3: i32 handle, 4: string action,
                          5: list<binary> arguments) throws (1: Refused refused)
  void bm_mt_delete_entry(1: i32 context, 2: string table, 3: i32 handle) throws (1: Refused refused)
  void bm_mt_set_default_action(1: i32 context, 2: string table, 3: string action, 4: list<binary> arguments)
                                throws (1: Refused refused)
  void bm_mt_reset_default_entry(1: i32 context, 2: string table) throws (1: Refused refused)
  CounterValue bm_mt_read_counter(1: i32 context, 2: string table, 3: i32 handle) throws (1: Refused refused)
  CounterValue bm_counter_read(1: i32 context, 2: string array, 3: i32 index) throws (1: Refused refused)
  void bm_meter_set_rates(1: i32 context, 2: string array, 3: i32 index, 4: list<MeterRate> rates)
                          throws (1: Refused refused)
  i64 bm_register_read(1: i32 context, 2: string array, 3: i32 index) throws (1: Refused refused)
  void bm_register_write(1: i32 context, 2: string array, 3: i32 index, 4: i64 value) throws (1: Refused refused)
}

service SimplePreLAG {
  i32 bm_mc_mgrp_create(1: i32 context, 2: i32 group) throws (1: Refused refused)
  i32 bm_mc_node_create(1: i32 context, 2: i32 rid, 3: string ports, 4: string lags) throws (1: Refused refused)
  void bm_mc_node_associate(1: i32 context, 2: i32 group, 3: i32 node) throws (1: Refused refused)
  void bm_mc_node_dissociate(1: i32 context, 2: i32 group, 3: i32 node) throws (1: Refused refused)
  void bm_mc_node_destroy(1: i32 context, 2: i32 node) throws (1: Refused refused)
}

service SimpleSwitch {
  void mirroring_session_add(1: i32 session, 2: Session where) throws (1: Refused refused)
  void mirroring_session_delete(1: i32 session) throws (1: Refused refused)
  i32 set_all_egress_queue_depths(1: i32 packets)
}
