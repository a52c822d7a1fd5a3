"""Guards taken out of the code, one at a time, and the tests that must notice.

A mutant is a piece of source and what stands in its place. `tests/long/mutants.py` puts each into
a copy of the tree and runs its tests there; tests/lint/faults.py sees that each piece still exists.

Not here, because nothing can notice them on this broker: auto-commit switched on (the polling
client has no group), fsync left out (only a loss of power would tell).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """A guard that is gone."""

    guard: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


OWNER = "consumers/transports/kafka/owner.py"
OPTIONS = "consumers/transports/kafka/options.py"
REPLAY = "consumers/service/replay.py"
LOCATE = "consumers/snapshots/locate.py"
GUARDS = "tests/kafka/test_kafka_guards.py"
CONTRACT = "tests/contract/test_owner.py"
IMPORTING = "tests/consumers/service/test_importing.py"
RECOVERED = "tests/consumers/service/test_recovery.py"
INPUTS = "consumers/service/inputs.py"
POISON = "consumers/service/crash_guard.py"
OUTCOME = "consumers/shard/outcome.py"
INPUTS_TESTS = "tests/consumers/service/test_inputs.py"
POISON_TESTS = "tests/consumers/service/test_crash_guard.py"
TABLE = "tests/stream/join/test_table.py"
FUTURE = "tests/consumers/shard/test_future_timestamps.py"
ROLLBACK = "tests/consumers/timetravel/test_rollback_early.py"
UNPACKING = "tests/kafka/test_unpacking.py"
ASSIGNMENT = "tests/transports/test_assignment.py"
BATCHES = "tests/transports/test_kafka_batches.py"
BACKFILL = "tests/consumers/backfill"
MIX = "tests/stream/mix/test_mixed.py"
RESHARD = "tests/consumers/timetravel/test_reshard.py"
KEYED = "tests/stream/keyed/test_per_key.py"
STORED = "tests/stream/keyed/test_store.py"
SQLITE = "tests/transports/test_sqlite_batches.py"
KEY_FILES = "tests/consumers/snapshots/test_key_files.py"
DUE = "tests/consumers/service/test_pace.py"
MIXES = "tests/consumers/service/test_mix.py"
NEWER = "tests/consumers/journal/test_newer_versions.py"
FORGED = "tests/consumers/snapshots/test_snapshots_forged.py"

MUTANTS = (
    Mutant(
        "each shard has one transactional id",
        OWNER,
        'self._transactional_id = f"{name}.{shard}"',
        'self._transactional_id = f"{name}.{shard}.{id(self)}"',
        (f"{CONTRACT}::test_owner_that_was_taken_over_commits_nothing_more[kafka]",),
    ),
    Mutant(
        "the old owner is fenced before anything is read",
        OWNER,
        "            self._producer.init_transactions()\n",
        "            init, begin = self._producer.init_transactions, "
        "self._producer.begin_transaction\n"
        "            self._producer.begin_transaction = lambda: (init(), setattr(\n"
        "                self._producer, 'begin_transaction', begin), begin())\n",
        (f"{CONTRACT}::test_owner_that_never_committed_is_fenced_too[kafka]",),
    ),
    Mutant(
        "only committed records are read",
        OPTIONS,
        '"isolation_level": "read_committed"',
        '"isolation_level": "read_uncommitted"',
        (
            f"{CONTRACT}::test_failed_commit_writes_nothing[kafka]",
            f"{GUARDS}::test_input_is_caught_up_whatever_follows_its_last_record",
        ),
    ),
    Mutant(
        "a lost position is an error",
        OPTIONS,
        '"auto_offset_reset": "none"',
        '"auto_offset_reset": "latest"',
        (
            "tests/faults/test_guards.py::"
            "test_records_that_retention_removes_under_way_are_told_not_jumped",
        ),
    ),
    Mutant(
        "every record is acknowledged before offsets are sent and committed",
        OWNER,
        "            acknowledged(producer, handed, "
        'self._options.seconds("delivery_timeout_ms"))\n',
        "            producer.flush(20)\n",
        ("tests/faults/test_guards.py::test_record_only_its_future_tells_of_fails_the_commit",),
    ),
    Mutant(
        "a transaction that the broker has timed out is not a commit",
        OWNER,
        '            acknowledged(producer, handed, self._options.seconds("delivery_timeout_ms"))\n'
        '            reach("after_check")\n'
        "            self._finish(producer, positions)\n"
        '            reach("after_commit")\n'
        "            return handed[-1].last_offset\n",
        "            producer.commit_transaction()\n            return 0\n",
        (
            "tests/faults/test_guards.py::"
            "test_transaction_that_the_broker_timed_out_fails_the_commit",
        ),
    ),
    Mutant(
        "a record whose topic has no metadata is an error",
        "consumers/transports/kafka/producer.py",
        '        if partition not in self._wait_on_metadata(topic, self.config["max_block_ms"]):\n'
        '            raise ValueError(f"no partition {partition} of topic {topic}")\n',
        "        try:\n"
        '            self._wait_on_metadata(topic, self.config["max_block_ms"])\n'
        "        except Exception:\n"
        "            return []\n",
        ("tests/faults/test_guards.py::test_record_of_a_topic_that_is_gone_fails_the_commit",),
    ),
    Mutant(
        "the transactional id fences, because the group does not",
        OWNER,
        'self._transactional_id = f"{name}.{shard}"',
        'self._transactional_id = f"{name}.{shard}.{id(self)}"',
        (
            "tests/faults/test_guards.py::"
            "test_owner_that_lost_its_group_without_noticing_commits_nothing",
        ),
    ),
    Mutant(
        "a failed future fails the commit",
        "consumers/transports/kafka/producer.py",
        "if future.exception is not None:",
        "if False:",
        (f"{GUARDS}::test_record_without_an_acknowledgement_is_an_error",),
    ),
    Mutant(
        "the end of a transaction is sent once",
        "consumers/transports/kafka/producer.py",
        "if isinstance(answer, KafkaConnectionError):",
        "if False:",
        (
            "tests/transports/test_kafka_producer.py::"
            "test_end_of_a_transaction_is_not_sent_again_after_a_lost_connection",
        ),
    ),
    Mutant(
        "an idle process is ready only as long as the log confirms its ownership",
        "consumers/service/runner.py",
        "if now.looping and (doubt := self._ownership.doubt):",
        "if False and (doubt := self._ownership.doubt):",
        (
            "tests/consumers/service/test_ownership.py::"
            "test_idle_process_is_not_ready_while_the_log_does_not_say_that_it_owns_the_shard",
        ),
    ),
    Mutant(
        "fields of a newer journal are not left out",
        "consumers/journal/records.py",
        "class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):",
        "class _Stored(msgspec.Struct, frozen=True):",
        (f"{NEWER}::test_record_with_something_of_a_newer_version_is_refused",),
    ),
    Mutant(
        "an older version does not fence a newer one",
        "consumers/service/journal_end.py",
        "    left.last(min(end, first + BEGINNING))\n",
        "",
        (f"{NEWER}::test_start_in_the_journal_of_a_newer_version_fences_nobody",),
    ),
    Mutant(
        "a snapshot of a newer version is not loaded",
        LOCATE,
        "        return newer(about) or self.left.objection(about)\n",
        "        return self.left.objection(about)\n",
        (f"{NEWER}::test_snapshot_of_a_newer_version_is_not_used",),
    ),
    Mutant(
        "every commit has the offsets",
        OWNER,
        "            producer.send_offsets_to_transaction(offsets, self._name)\n",
        "",
        (f"{CONTRACT}::test_commit_shows_outputs_journal_and_positions[kafka]",),
    ),
    Mutant(
        "a commit has a time limit",
        OWNER,
        'within(self._options.seconds("request_timeout_ms"), "commit", finish)',
        "finish()",
        (f"{GUARDS}::test_commit_that_never_returns_is_given_up",),
    ),
    Mutant(
        "an owner that failed is never used again",
        OWNER,
        '            self._die("it has failed before")\n',
        "            with suppress(Exception):\n"
        "                self._producer.abort_transaction()\n",
        (
            "tests/faults/test_guards.py::test_offsets_of_a_failed_commit_never_come_with_the_next",
            f"{GUARDS}::test_zombie_is_fenced_and_then_refuses_every_call",
        ),
    ),
    Mutant(
        "an owner that failed checks whether it was replaced",
        OWNER,
        "            if self._overtaken():\n",
        "            if False:\n",
        ("tests/faults/test_guards.py::test_owner_replaced_while_its_commit_hung_is_fenced",),
    ),
    Mutant(
        "an owner that lost the log checks whether it was replaced before it takes the shard again",
        "consumers/service/runner.py",
        "        if self._owner is not None and self._owner.overtaken():\n",
        "        if False:\n",
        (
            "tests/consumers/service/test_runner.py::"
            "test_owner_that_lost_sight_of_the_log_does_not_fence_who_took_over",
        ),
    ),
    Mutant(
        "options that exactly once requires are fixed",
        OPTIONS,
        "    if name in _FIXED:\n",
        "    if not name:\n",
        (f"{GUARDS}::test_option_that_exactly_once_depends_on_is_refused",),
    ),
    Mutant(
        "a replay writes no output",
        REPLAY,
        "                        live.replayed += outcome.batch.messages\n",
        "                        live.replayed += outcome.batch.messages\n"
        "                        log.append([*outcome.predictions()])\n",
        (f"{RECOVERED}::test_replay_writes_nothing",),
    ),
    Mutant(
        "a replay compares its records with those that were consumed",
        "consumers/journal/reader.py",
        "            if count != r.count or crc != r.crc32:\n",
        "            if False:\n",
        (f"{RECOVERED}::test_input_that_has_changed_since_stops_the_replay",),
    ),
    Mutant(
        "a replay compares its predictions with the recorded hash",
        "consumers/service/live.py",
        "    if live.chain == entry.chain or entry.seq < live.entry.since:\n",
        "    if True:\n",
        (f"{RECOVERED}::test_replay_that_says_something_else_is_refused",),
    ),
    Mutant(
        "records removed by a rollback stay removed",
        REPLAY,
        "            if cut or not isinstance(entry, CommitRecord):\n",
        "            if not isinstance(entry, CommitRecord):\n",
        (
            "tests/consumers/timetravel/test_point_in_time.py::test_a_rollback_of_a_rollback_brings_back_what_was_cut",
        ),
    ),
    Mutant(
        "a journal has no gap",
        REPLAY,
        "if entry.seq != live.seq + 1 and not cut:",
        "if False:",
        (f"{RECOVERED}::test_journal_with_a_missing_entry_is_refused",),
    ),
    Mutant(
        "a snapshot ahead of the journal is rejected",
        LOCATE,
        "        if about.position > self.end:\n",
        "        if False:\n",
        (f"{RECOVERED}::test_snapshot_ahead_of_the_journal_is_refused",),
    ),
    Mutant(
        "a journal that lost its newest records is refused",
        "consumers/service/journal_end.py",
        "    if found is None:\n",
        "    if True:\n",
        (
            "tests/consumers/journal/test_journal_end.py::test_shortened_journal_is_refused_at_every_length",
        ),
    ),
    Mutant(
        "a snapshot of another journal is rejected",
        LOCATE,
        "        if about.identity != mark_of(self.identity):\n",
        "        if False:\n",
        (f"{RECOVERED}::test_snapshot_of_another_identity_is_refused",),
    ),
    Mutant(
        "a damaged snapshot is rejected",
        "consumers/snapshots/format.py",
        " or not hmac.compare_digest(found, data[-32:])",
        "",
        ("tests/consumers/snapshots/test_snapshots.py::test_random_flips_are_refused",),
    ),
    Mutant(
        "a state equals the state whose hash the journal has",
        "consumers/service/live.py",
        "live.loaded[0] == saved[0] and live.loaded != saved",
        "live.loaded[0] == saved[0] and False",
        (f"{FORGED}::test_what_no_prediction_shows_is_told_by_the_journal",),
    ),
    Mutant(
        "if the newest snapshot does not replay, an older one is used",
        "consumers/service/recovery.py",
        "            except DIVERGED as error:\n",
        "            except ZeroDivisionError as error:\n",
        (f"{FORGED}::test_older_snapshot_is_taken_where_the_newest_does_not_replay",),
    ),
    Mutant(
        "a shard is at the start of its next journal record",
        REPLAY,
        "        if at != r.first:\n",
        "        if False:\n",
        (f"{FORGED}::test_shard_that_stands_elsewhere_is_named_not_the_log",),
    ),
    Mutant(
        "an offset of -1 is not an acknowledgement",
        "consumers/transports/kafka/producer.py",
        "        if future.base_offset < 0:\n",
        "        if False:\n",
        (f"{GUARDS}::test_batch_the_broker_claims_to_hold_already_fails_the_commit",),
    ),
    Mutant(
        "a start compares the ids of its topics",
        "consumers/service/differences.py",
        '                out.renewed[topic] = f"id {now.id}, where {known} was consumed"\n',
        "                pass\n",
        (f"{INPUTS_TESTS}::test_topic_that_was_made_again_ends_the_start_and_says_what_to_do",),
    ),
    Mutant(
        "a new service knows the ids of its topics before its first commit",
        "consumers/service/beginning.py",
        "{t: known.id for t, known in described.items() if known.id}",
        "{}",
        (
            "tests/consumers/service/test_idle_inputs.py::"
            "test_topic_made_again_before_a_first_commit_is_not_passed_over",
        ),
    ),
    Mutant(
        "a start does not begin empty after an import that was interrupted",
        "consumers/service/journal_end.py",
        "if not importing and there and",
        "if importing and there and",
        (f"{IMPORTING}::test_interrupted_import_is_repeated",),
    ),
    Mutant(
        "a replay begins with the imported model",
        "consumers/service/recovery.py",
        "begun(config, identity, found, _imported(config, origin, refused))",
        "begun(config, identity, found)",
        (f"{IMPORTING}::test_service_continues_the_model_from_its_first_record",),
    ),
    Mutant(
        "the imported model in the journal is compared with its hash",
        "consumers/journal/model_parts.py",
        "if len(found) < file.parts or hashlib",
        "if False and hashlib",
        (f"{IMPORTING}::test_journal_that_lost_a_part_is_refused",),
    ),
    Mutant(
        "a running service compares the ids of its topics",
        INPUTS,
        '        known = live.adopting.get(topic) or live.topics.get(topic, "")\n',
        '        known = ""\n',
        (
            f"{INPUTS_TESTS}::"
            "test_topic_made_again_under_a_running_service_ends_it_before_another_prediction",
        ),
    ),
    Mutant(
        "a running service compares the end of its journal",
        INPUTS,
        "        if self._led(now) != self._led(self._seen):\n",
        "        if False:\n",
        (
            "tests/consumers/journal/test_journal_gap.py::test_journal_is_compared_once_after_an_election[1]",
        ),
    ),
    Mutant(
        "the merge changes no part that it was given",
        "consumers/journal/merge.py",
        "                    self._first(part.split(stop)[1].compact())\n",
        "                    part.shift(stop)\n                    self._first(part.compact())\n",
        ("tests/consumers/base/test_cells.py::test_merge_of_cells_is_that_of_lists",),
    ),
    Mutant(
        "a commit has a bound in bytes",
        "consumers/journal/merge.py",
        "        if n and sum(each.nbytes + each.unpacked for each in buffers) > max_bytes:\n",
        "        if False:\n",
        (
            "tests/consumers/shard/test_bytes.py::"
            "test_any_byte_bound_gives_the_order_of_the_heads_and_is_kept",
        ),
    ),
    Mutant(
        "a record is rejected only after a trial",
        POISON,
        "        needed, deaths = TRIALS, 0\n",
        "        return True\n",
        (f"{POISON_TESTS}::test_record_is_condemned_only_beside_children_that_live",),
    ),
    Mutant(
        "a record is rejected only if a child process without it survives",
        POISON,
        '            if without.end != "lived":\n',
        "            if False:\n",
        (f"{POISON_TESTS}::test_record_is_condemned_only_beside_children_that_live",),
    ),
    Mutant(
        "after a start that was killed during a trial, the next start has no trial",
        POISON,
        "            self._deaths = min(self._deaths, STARTS - 1)\n",
        "            pass\n",
        (f"{POISON_TESTS}::test_start_killed_during_a_trial_is_followed_by_one_without",),
    ),
    Mutant(
        "no prediction has a timestamp after its commit",
        OUTCOME,
        "value, min(ts, self.now), headers, out)",
        "value, ts, headers, out)",
        (f"{FUTURE}::test_only_the_records_timestamp_is_clamped_and_each_is_counted",),
    ),
    Mutant(
        "no dead letter has a timestamp after its commit",
        OUTCOME,
        "min(record.timestamp, self.now), headers, 0)",
        "record.timestamp, headers, 0)",
        (f"{FUTURE}::test_only_the_records_timestamp_is_clamped_and_each_is_counted",),
    ),
    Mutant(
        "ids with the same hash are compared",
        "stream/join/_kernels/ids.py",
        "        if alike and is_id(t, entry, data, start, stop):\n",
        "        if alike:\n",
        (f"{TABLE}::test_ids_with_the_same_hash_are_different_ids",),
    ),
    Mutant(
        "a settled id that is forgotten leaves its bytes",
        "stream/join/_kernels/planning.py",
        "    c[SETTLED_BYTES] -= size if slot < 0 else size + t.sizes[slot]\n",
        "    c[SETTLED_BYTES] -= size\n",
        (f"{TABLE}::test_hostile_sequences_give_what_dicts_give",),
    ),
    Mutant(
        "a correction is not planned by kernels",
        "stream/join/_kernels/planning.py",
        "        return other or (t.links[entry, SLOT] >= 0 and held != code)  # a correction\n",
        "        return other\n",
        (f"{TABLE}::test_hostile_sequences_give_what_dicts_give",),
    ),
    Mutant(
        "an early label is checked when it is joined with its observation",
        "stream/join/state.py",
        "        return IdState.EARLY if fit else IdState.UNFIT\n",
        "        return IdState.EARLY\n",
        (
            "tests/consumers/shard/test_early_labels.py::"
            "test_early_label_that_does_not_fit_is_a_dead_letter_of_its_own_bytes",
        ),
    ),
    Mutant(
        "an early label that a removed span rejected is not rejected again",
        "consumers/service/live.py",
        "        live.shard.forget_early(entry.early)\n",
        "",
        (f"{ROLLBACK}::test_early_label_refused_in_a_span_that_is_cut_out_is_a_dead_letter_once",),
    ),
    Mutant(
        "a rollback removes the early labels that the span rejected",
        "consumers/timetravel/rollback.py",
        "        apply_skipped(entry, live, cut=True)  # as a replay of this journal does\n",
        "        from consumers.journal.reader import move_positions\n"
        "        move_positions(entry, live.shard.positions)\n",
        (f"{ROLLBACK}::test_rollback_leaves_the_shard_as_a_start_finds_it",),
    ),
    Mutant(
        "a batch that is decompressed beyond its bound is rejected",
        "consumers/transports/kafka/codecs.py",
        "    if len(made) > most:\n",
        "    if False:\n",
        (f"{UNPACKING}::test_unpacks_as_the_client_does_or_refuses",),
    ),
    Mutant(
        "decompression stops at the bound",
        "consumers/transports/kafka/codecs.py",
        "    while part := file.read(min(left, _PIECE)):\n",
        "    while part := file.read():\n",
        (f"{UNPACKING}::test_bomb_takes_no_more_than_its_bound[zstd]",),
    ),
    Mutant(
        "reference cycles that hold records are collected by their bytes",
        "consumers/transports/kafka/reader.py",
        "            gc.collect(1)\n",
        "            pass\n",
        (
            "tests/kafka/test_kafka_fetches.py::"
            "test_cycles_that_hold_records_are_collected_by_their_bytes",
        ),
    ),
    Mutant(
        "batches before one with a damaged record are read",
        "consumers/transports/kafka/reader.py",
        "            if len(run) == 1:\n                raise\n",
        "            raise\n",
        (f"{BATCHES}::test_batches_before_one_with_a_damaged_record_are_read[0]",),
    ),
    Mutant(
        "the batches of a run were written under one leader",
        "consumers/transports/kafka/reader.py",
        "epoch is None or epoch != leader or ",
        "epoch is None or ",
        (f"{BATCHES}::test_partition_is_taken_as_the_client_takes_it",),
    ),
    Mutant(
        "the checksum of each batch is compared",
        "consumers/transports/kafka/batches.py",
        "            many, end = i, at\n            break\n",
        "            pass\n",
        (f"{BATCHES}::test_any_damage_is_found_where_the_client_finds_it",),
    ),
    Mutant(
        "plain batches of a run were written under one leader",
        "consumers/transports/kafka/_kernels.py",
        " or leader != epoch",
        "",
        (f"{BATCHES}::test_partition_is_taken_as_the_client_takes_it",),
    ),
    Mutant(
        "offsets of topics that the client does not know are asked for again",
        "consumers/transports/kafka/reader.py",
        "                if time.monotonic() >= deadline:\n                    raise\n",
        "                raise\n",
        (
            "tests/kafka/test_kafka_fetches.py::"
            "test_offsets_are_found_also_of_topics_that_the_client_does_not_know_yet",
        ),
    ),
    Mutant(
        "models of splits are merged in the order of the splits",
        "consumers/backfill/fit.py",
        "left, right = (neighbour, model) if place % 2 else (model, neighbour)",
        "left, right = neighbour, model",
        (f"{BACKFILL}/test_fold.py::test_any_order_of_arrival_gives_the_same_tree",),
    ),
    Mutant(
        "a service starts at the offsets where its history ends",
        "consumers/service/importing.py",
        "starts=None if history is None else history.starts,",
        "starts=None,",
        (f"{BACKFILL}/test_logs.py::test_service_continues_where_the_history_ends",),
    ),
    Mutant(
        "what waits after a history is not scored",
        "consumers/shard/assembly.py",
        '    rows["predicted"] = np.full_like(rows["predicted"], -1)\n',
        "",
        (f"{BACKFILL}/test_logs.py::test_service_continues_where_the_history_ends",),
    ),
    Mutant(
        "a label that came at --as-of or later is not learned",
        "consumers/backfill/files.py",
        "if as_of is None or each.time < as_of",
        "",
        (f"{BACKFILL}/test_files.py::test_labels_after_as_of_are_not_learned_and_wait",),
    ),
    Mutant(
        "a time is not found at the marker of a transaction",
        "consumers/transports/kafka/log.py",
        "return first_offsets(self, found, ends, lambda times: times >= timestamp)",
        "return found",
        ("tests/kafka/test_backfill.py::test_a_time_is_found_at_a_record_that_readers_get",),
    ),
    Mutant(
        "a shard gives on only what it has learned itself",
        "stream/mix/mixed.py",
        "return State.join({str(i): part.learner.to_state() for i, part in parts})",
        "return State.join({str(i): part.predictor.to_state() for i, part in parts})",
        (f"{MIX}::test_what_was_mixed_in_is_not_given_on",),
    ),
    Mutant(
        "the own statistics are in the merge, also if they do not fit the others",
        "stream/mix/mixed.py",
        "        if self.shard in left:  # its own statistics are always in it\n",
        "        if False:\n",
        (f"{MIX}::test_statistics_of_another_kind_are_left_out_and_named",),
    ),
    Mutant(
        "the records of a shard are learned by its own statistics too",
        "stream/mix/mixed.py",
        "        if self._mixed is not None and learns.size:\n",
        "        if False:\n",
        (f"{MIX}::test_shards_that_know_all_statistics_are_one_model_that_saw_all_records",),
    ),
    Mutant(
        "a replay takes over the statistics that the journal names",
        REPLAY,
        "if entry.seq >= live.entry.since and live.shard.mix.active:",
        "if False:",
        (f"{MIXES}::test_a_replay_repeats_every_prediction_of_the_mixed_model",),
    ),
    Mutant(
        "a shard whose records were all rolled back publishes that",
        "consumers/service/mix.py",
        "if at != self._published and (any(at) or ends[self._own]):",
        "if at != self._published and any(at):",
        (f"{MIXES}::test_a_rollback_of_everything_takes_it_from_the_others_too",),
    ),
    Mutant(
        "labels of another kind are not taken over",
        "consumers/shard/mix.py",
        "        if len(kinds) > 1:\n",
        "        if False:\n",
        (f"{MIXES}::test_what_does_not_fit_is_refused_and_the_shard_continues",),
    ),
    Mutant(
        "the numbers of all keys are a prior without the key's own",
        "stream/keyed/_kernels.py",
        "        others = all_n - n\n",
        "        others = all_n\n",
        (f"{KEYED}::test_predictions_are_those_of_the_slow_twin",),
    ),
    Mutant(
        "the categories of all keys are a prior without the key's own",
        "stream/keyed/_kernels.py",
        "    others = s.seen[0, j, c] - n\n",
        "    others = s.seen[0, j, c]\n",
        (f"{KEYED}::test_predictions_are_those_of_the_slow_twin",),
    ),
    Mutant(
        "a key has an anchor of its own",
        "stream/keyed/_kernels.py",
        "        if held > 0.0:  # its own anchor is nearer to its values\n",
        "        if False:\n",
        (f"{KEYED}::test_predictions_are_those_of_the_slow_twin",),
    ),
    Mutant(
        "a state with more values of keys than there is room for is refused",
        "stream/keyed/per_key.py",
        "        if int(self._table.entries.used[0]) > self._entries + int(sizes.sum()):\n",
        "        if False:\n",
        (f"{KEYED}::test_state_of_a_larger_model_is_refused_with_the_reason",),
    ),
    Mutant(
        "a key that leaves memory takes its changes to the store",
        "stream/keyed/residents.py",
        "        self._dirty[changed] = True\n",
        "        self._dirty[changed[:1]] = True\n",
        (f"{STORED}::test_a_learner_with_a_store_equals_one_in_memory",),
    ),
    Mutant(
        "entries of keys that are not in memory count",
        "stream/keyed/table.py",
        "        e.used[0], e.used[2] = used, e.used[2] + before - used\n",
        "        e.used[0] = used\n",
        (f"{STORED}::test_values_of_all_keys_are_bounded_wherever_they_are",),
    ),
    Mutant(
        "a row that a kept snapshot needs is not removed",
        "consumers/snapshots/key_files.py",
        "        gone = [(number,) for number, since, until in found if until <= upto]\n",
        "        gone = [(number,) for number, since, until in found]\n",
        (f"{KEY_FILES}::test_every_named_version_is_there",),
    ),
    Mutant(
        "rows after a snapshot are removed when it is loaded",
        "consumers/snapshots/key_files.py",
        '                db.execute("DELETE FROM rows WHERE number > ?", (last,))\n',
        "",
        (f"{KEY_FILES}::test_every_named_version_is_there",),
    ),
    Mutant(
        "the file of keys is durable before the snapshot that names it",
        "consumers/snapshots/key_files.py",
        '            db.execute("COMMIT")\n',
        '            db.execute("SAVEPOINT later")\n',
        (f"{KEY_FILES}::test_every_named_version_is_there",),
    ),
    Mutant(
        "a start looks whether the service was moved before it fences anybody",
        "consumers/service/runner.py",
        "        check_open(self._log, found.journal)\n",
        "",
        (f"{RESHARD}::test_start_with_the_old_number_is_refused_before_it_fences_anybody",),
    ),
    Mutant(
        "of two moves at once one ends",
        "consumers/timetravel/old_shards.py",
        "            if live.moved is not None and old.moved is None:\n",
        "            if False:\n",
        (f"{RESHARD}::test_of_two_calls_at_once_one_moves_the_service",),
    ),
    Mutant(
        "a new shard skips the records that the old one skipped",
        "consumers/timetravel/reshard.py",
        "            skips = self._consumed.within(batch)\n",
        "            skips = []\n",
        (f"{RESHARD}::test_skipped_records_stay_skipped",),
    ),
    Mutant(
        "a snapshot that is due waits for the writer and stays due",
        "consumers/service/pace.py",
        "        if busy or (not late and self._records < self._every):\n",
        "        if not late and self._records < self._every:\n",
        (f"{DUE}::test_snapshot_waits_for_the_writer_and_stays_due",),
    ),
    Mutant(
        "a shard moves only to a warm copy",
        "consumers/transports/kafka/assignment.py",
        "        waits = holder != owner and (shard, owner) in cold\n",
        "        waits = False\n",
        (f"{ASSIGNMENT}::test_shard_of_a_living_owner_moves_only_to_a_warm_copy",),
    ),
    Mutant(
        "a member joins again when what it awaits is warm",
        "consumers/transports/kafka/assignor.py",
        "{*self._answer.awaits} - self._reported)\n",
        "self._answer.awaits[:0])\n",
        (f"{ASSIGNMENT}::test_member_joins_again_once_for_each_shard_that_it_awaited",),
    ),
    Mutant(
        "a newer copy comes before an older snapshot of the host",
        "consumers/snapshots/store.py",
        "        return sorted(found, key=lambda each: _position(each[0]), reverse=True), errors\n",
        "        return found, errors\n",
        (
            "tests/consumers/snapshots/test_snapshots_copies.py::"
            "test_the_newest_snapshot_comes_first_wherever_it_is",
        ),
    ),
    Mutant(
        "a batch of another length is not read as a plain one",
        "consumers/transports/sqlite/_kernels.py",
        "    if count != starts.size:\n",
        "    if count > starts.size:\n",
        (f"{SQLITE}::test_batch_with_columns_of_different_lengths_is_refused",),
    ),
    Mutant(
        "times too far apart for an int64 are written by msgspec",
        "consumers/transports/sqlite/batches.py",
        "    if int(times.max()) - int(times.min()) > _MOST_BETWEEN:\n",
        "    if False:\n",
        (f"{SQLITE}::test_times_too_far_apart_for_an_int64_are_written",),
    ),
    Mutant(
        "a column with a missing value is not added as one without",
        "stream/neighbors/_kernels/search.py",
        "            if held[w] == held[j] == n and never_nan(",
        "            if never_nan(",
        (
            "tests/stream/neighbors/test_knn.py::test_a_gap_of_a_record_counts_as_the_range_of_the_attribute",
        ),
    ),
)
