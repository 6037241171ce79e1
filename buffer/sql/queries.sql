-- Statements of the buffer, by name; each has one sentence. `{name}` includes another statement.

-- mark_answers --
-- Mark pushes whose answers were written, or whose clients left; delete the rows of older ones.
-- The commit does not wait for the disk.
WITH unsynchronized AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', TRUE)),
deleted AS (DELETE FROM buffer_unansweredpush WHERE id = ANY(%(deleted)s::bigint[]))
UPDATE buffer_unansweredpush SET answered_at = marks.at, client_left = marks.at IS NULL
FROM unnest(%(ids)s::bigint[], %(times)s::timestamptz[]) AS marks(id, at), unsynchronized
WHERE buffer_unansweredpush.id = marks.id

-- queue_chunks --
-- Queue the fragments of whole chunks.
UPDATE buffer_fragmentchunk f SET state = 'queued', chunk = whole.chunk
FROM unnest(%s::bigint[], %s::bigint[]) AS whole(id, chunk)
WHERE f.id = whole.id AND f.state = 'waiting'
RETURNING f.epoch, f.size_bytes, f.environment

-- insert_fragments --
-- Insert fragments, ordered so that two pushes of the same ones do not deadlock.
INSERT INTO buffer_fragmentchunk
    (run_id, received_at, state, drop_reason, epoch, size_bytes, slot, number, contiguous,
     environment, worker, version_min, version_max, steps,
     codec, crc32, segment, object, "offset", origin)
SELECT %(run)s, %(now)s, r.state, r.drop_reason, r.epoch, r.size_bytes, r.slot, r.number,
     r.contiguous, r.environment, r.worker, r.version_min, r.version_max, r.steps,
     r.codec, r.crc32, r.segment, r.object, r."offset", r.origin
FROM json_to_recordset(%(rows)s) AS r(
    state text, drop_reason text, epoch int, size_bytes int, slot text, number bigint,
    contiguous bool, environment text, worker text, version_min int, version_max int,
    steps int, codec text, crc32 bigint, segment int, object text, "offset" bigint,
    origin text, place int)
ORDER BY r.slot, r.number, r.place
ON CONFLICT (run_id, slot, number) DO NOTHING RETURNING id, slot, number

-- lock_key --
-- Lock an idempotency key until the transaction ends, unless it is locked.
SELECT pg_try_advisory_xact_lock(hashtext('rolldeck.key'), hashtext(%s))

-- find_key --
-- Find the receipt of an earlier push with a key.
SELECT body_fingerprint, receipt::text FROM buffer_idempotencyrecord
WHERE run_id = %s AND key = %s

-- store_key --
-- Store the receipt of a push with a key.
INSERT INTO buffer_idempotencyrecord (run_id, key, body_fingerprint, receipt, created_at)
VALUES (%s, %s, %s, %s, %s)

-- claim_pushes --
-- Claim pushes without a key; `pushes` has the columns fingerprint (hexadecimal), receipt and
-- received_at.
INSERT INTO buffer_unansweredpush AS known (run_id, fingerprint, receipt, accepted_at)
SELECT %(run)s, decode(fingerprint, 'hex') AS fingerprint, receipt, received_at
FROM pushes WHERE fingerprint IS NOT NULL ORDER BY fingerprint
ON CONFLICT (run_id, fingerprint) DO UPDATE
SET id = EXCLUDED.id, receipt = EXCLUDED.receipt, accepted_at = EXCLUDED.accepted_at,
    answered_at = NULL, client_left = false
WHERE known.id = ANY(%(answered)s::bigint[])
    OR known.answered_at <= EXCLUDED.accepted_at
    OR known.accepted_at < EXCLUDED.accepted_at - %(claim_lifetime)s
RETURNING id, fingerprint

-- new_group_ids --
-- Take new ids for groups.
SELECT ARRAY(
    SELECT nextval(pg_get_serial_sequence('buffer_trajectorygroup', 'id'))
    FROM generate_series(1, %(count)s)
) AS ids

-- open_amounts --
-- Sum up the open items of a run: groups, and bytes of both kinds; ends with `run_id =`.
SELECT COALESCE(SUM(items) FILTER (WHERE kind = 'groups'), 0)::bigint AS items,
    COALESCE(SUM(size_bytes), 0)::bigint AS size_bytes
FROM buffer_tally WHERE state IN ('leased', 'quarantined', 'queued', 'waiting') AND run_id =

-- environment_arrays --
-- Gather what a push of groups needs to know of the environments `e`.
SELECT COALESCE(array_agg(env_id), '{}') AS env_ids,
    COALESCE(array_agg(group_size), '{}') AS sizes,
    COALESCE(array_agg(env_id) FILTER (WHERE muted), '{}') AS muted,
    COALESCE(array_agg(env_id) FILTER (
        WHERE last_seen_at < statement_timestamp() - %(seen_every)s::interval
    ), '{}') AS unseen
FROM e

-- context_of_groups --
-- Read what a push of groups needs to know of its run, after decoding.
WITH e AS (
    SELECT env_id, group_size, muted, last_seen_at FROM runs_environment
    WHERE run_id = %(run)s AND env_id = ANY(%(envs)s::int[])
)
SELECT * FROM ({open_amounts} %(run)s) t, ({new_group_ids}) i, ({environment_arrays}) a

-- context_of_run_where --
-- Read a run that takes groups, what a push needs to know of it and of its newest environments;
-- ends with a condition.
WITH r AS (
    SELECT id, name, kind, status, archived_at, lenient, advantages, max_staleness,
        drop_zero_variance, overlong_sequences, unscored_sequences, least_group_size,
        max_token_len, epoch, policy_step, served_steps
    FROM runs_run WHERE archived_at IS NULL AND kind <> 'fleet' AND

-- context_of_newest --
-- Follows a condition after `context_of_run_where`.
), e AS (
    SELECT env_id, group_size, muted, last_seen_at FROM runs_environment
    WHERE run_id = (SELECT id FROM r) ORDER BY env_id DESC LIMIT %(newest)s
)
SELECT * FROM r, LATERAL ({open_amounts} r.id) t, ({new_group_ids}) i, ({environment_arrays}) a

-- context_of_run --
-- Read the context of a push to a run.
{context_of_run_where} {column} = %(name)s {context_of_newest}

-- context_of_default_run --
-- Read the context of a push to the default run.
{context_of_run_where} is_default {context_of_newest}

-- lock_waiting --
-- Lock the waiting groups of an environment: two parts of a group that arrive concurrently must see
-- each other.
SELECT pg_advisory_xact_lock(hashtext('rolldeck.waiting'), hashtext(%s))

-- insert_groups --
-- Insert pushes of groups: their claims, rows and counts.
WITH pushes AS (
    SELECT * FROM json_to_recordset(%(pushes)s) AS p(
        push int, received_at timestamptz, producer text, fingerprint text, receipt jsonb)),
claimed AS ({claim_pushes}),
stored_pushes AS (
    SELECT push, received_at, producer, claimed.id AS claim
    FROM pushes LEFT JOIN claimed ON claimed.fingerprint = decode(pushes.fingerprint, 'hex')
    WHERE pushes.fingerprint IS NULL OR claimed.id IS NOT NULL),
stored AS (
    INSERT INTO buffer_trajectorygroup
        (run_id, received_at, producer, id, state, drop_reason, epoch, policy_step, env_id,
         sequences, tokens, longest_tokens, score_mean, score_min, score_max, score_std,
         size_bytes, codec, crc32, segment, object, "offset", origin)
    SELECT %(run)s, received_at, producer, id, state, drop_reason, epoch, policy_step, env_id,
         sequences, tokens, longest_tokens, score_mean, score_min, score_max, score_std,
         size_bytes, codec, crc32, segment, object, "offset", origin
    FROM json_to_recordset(%(rows)s) AS r(
        push int, id bigint, state text, drop_reason text, epoch int, policy_step int,
        env_id int, sequences int, tokens bigint, longest_tokens int, score_mean float8,
        score_min float8, score_max float8, score_std float8, size_bytes int,
        codec text, crc32 bigint, segment int, object text, "offset" bigint, origin text)
    JOIN stored_pushes USING (push) ORDER BY id),
{count_pushes}
SELECT push, claim FROM stored_pushes

-- has_stale_fragments --
-- Whether a row of `runs_run` has fragments too old by version or epoch.
(
    EXISTS (
        -- Counts: no index finds open fragments of older epochs among all fragments of the run.
        SELECT FROM buffer_tally t
        WHERE t.run_id = runs_run.id AND t.kind = 'fragments' AND t.epoch < runs_run.epoch
        AND t.state IN ('waiting', 'queued', 'leased', 'quarantined')
        GROUP BY t.state, t.epoch HAVING SUM(t.items) > 0
    ) OR COALESCE((
        -- Oldest first: before the first ANALYZE, the planner would otherwise scan all queued ones.
        SELECT f.version_min < runs_run.policy_step - runs_run.max_staleness
        FROM buffer_fragmentchunk f
        WHERE f.run_id = runs_run.id AND f.epoch = runs_run.epoch AND f.state = 'queued'
        ORDER BY f.version_min LIMIT 1
    ), FALSE) OR EXISTS (
        SELECT FROM buffer_fragmentchunk f
        WHERE f.run_id = runs_run.id AND f.epoch = runs_run.epoch AND f.state = 'waiting'
        AND f.version_min < runs_run.policy_step - runs_run.max_staleness
    ))

-- find_stale_fragments --
-- Whether a run has fragments too old by version or epoch.
SELECT {has_stale_fragments} FROM runs_run WHERE id = %(run)s

-- find_stale_groups --
-- Whether a run has queued groups too old by version or epoch.
SELECT EXISTS (
    SELECT FROM buffer_trajectorygroup
    WHERE run_id = %(run)s AND state = 'queued' AND epoch < %(epoch)s
) OR EXISTS (
    SELECT FROM buffer_trajectorygroup
    WHERE run_id = %(run)s AND state = 'queued' AND epoch = %(epoch)s
    AND policy_step < %(oldest)s
)

-- form_batch --
-- Lease and count queued items, create the batch from them and increment the run's ordinal.
WITH moved AS (
    UPDATE {table} i
    SET state = 'leased', batch_id = %(batch)s, position = p.place - 1
    FROM unnest(%(items)s::bigint[]) WITH ORDINALITY AS p(id, place)
    -- An array, and a state expression without index: see `add_sampled_chunks`.
    WHERE i.id = ANY(%(items)s::bigint[]) AND i.id = p.id AND i.run_id = %(run)s
        AND COALESCE(i.state, '') = 'queued'
    RETURNING {columns}
), {insert_batch}, {mixing} {count_moved}
SELECT * FROM made

-- update_debts --
-- Update the debts of a batch's environments; part of `form_batch`.
unblocked AS (
    UPDATE buffer_mixingshare SET blocks_since = NULL
    WHERE run_id = %(run)s AND blocks_since IS NOT NULL AND env_id <> ALL(%(env_ids)s::int[])
), mixed AS (
    INSERT INTO buffer_mixingshare AS m (run_id, env_id, sequences, debt, target)
    SELECT %(run)s, *
    FROM unnest(%(env_ids)s::int[], %(taken)s::bigint[], %(debts)s::float8[],
                %(targets)s::float8[])
    ON CONFLICT (run_id, env_id) DO UPDATE
    SET sequences = m.sequences + excluded.sequences, debt = excluded.debt,
        target = excluded.target, blocks_since = NULL
),

-- oldest_fragments --
-- Find the oldest queued fragments of a run.
SELECT id FROM buffer_fragmentchunk
WHERE run_id = %s AND epoch = %s AND state = 'queued' ORDER BY id LIMIT %s

-- record_waiting --
-- Record the environments whose minimums delay batches.
WITH waits AS (SELECT unnest(%(waiting)s::int[]) AS env_id), unblocked AS (
    UPDATE buffer_mixingshare SET blocks_since = NULL
    WHERE run_id = %(run)s AND blocks_since IS NOT NULL
    AND env_id NOT IN (SELECT env_id FROM waits)
)
INSERT INTO buffer_mixingshare (run_id, env_id, sequences, debt, target, blocks_since)
SELECT %(run)s, env_id, 0, 0, 0, %(since)s FROM waits
ON CONFLICT (run_id, env_id) DO UPDATE SET blocks_since = excluded.blocks_since

-- subtract_shares --
-- Subtract a dropped batch from the shares of its environments.
UPDATE buffer_mixingshare m SET sequences = m.sequences - c.value::bigint
FROM buffer_batch b, jsonb_each_text(b.composition) AS c
WHERE b.id = %s AND m.run_id = b.run_id
AND m.env_id = COALESCE(NULLIF(c.key, '')::int, -1)

-- lease_again --
-- Lease an existing batch under a higher fence.
UPDATE buffer_batch
SET state = 'leased', trainer_id = %(trainer)s, fence = fence + 1,
    leased_at = statement_timestamp(),
    lease_expires_at = statement_timestamp() + make_interval(secs => %(seconds)s),
    sender = %(sender)s::text,
    sending_since = CASE WHEN %(sender)s::text <> '' THEN statement_timestamp() END,
    delivered_at = NULL
WHERE id = %(batch)s
RETURNING fence, leased_at, lease_expires_at, sending_since

-- renew_leases --
-- Renew the leases of batches.
UPDATE buffer_batch
SET state = 'leased', lease_expires_at = statement_timestamp() + make_interval(secs => %s)
WHERE id = ANY(%s)

-- record_delivery --
-- Record that a batch was sent; a trainer may acknowledge it before.
UPDATE buffer_batch
SET delivered_at = LEAST(statement_timestamp(), settled_at), sending_since = NULL, sender = ''
WHERE id = %s AND fence = %s

-- environments_of_queue --
-- Read counts, registrations and debts of a run's environments.
WITH counted AS (
    SELECT env_id, size, SUM(items)::bigint AS items FROM buffer_tally
    WHERE run_id = %(run)s AND kind = 'groups' AND state = 'queued'
    GROUP BY env_id, size HAVING SUM(items) > 0
), sizes AS (
    SELECT env_id, array_agg(size) AS sizes, array_agg(items) AS items
    FROM counted GROUP BY env_id
), environment AS (
    SELECT env_id, weight, min_batch_allocation, connected
    FROM (
        SELECT env_id, weight, min_batch_allocation, connected AND NOT muted
            AND last_seen_at >= statement_timestamp() - %(silent_after)s AS connected
        FROM runs_environment WHERE run_id = %(run)s
    ) registered
    WHERE connected OR env_id IN (SELECT env_id FROM counted)
)
SELECT statement_timestamp() AS now, COALESCE(e.env_id, s.env_id) AS env_id,
    COALESCE(e.weight, 1) AS weight, COALESCE(e.min_batch_allocation, 0) AS minimum,
    COALESCE(e.connected, FALSE) AS connected, COALESCE(m.debt, 0) AS debt, m.blocks_since,
    s.sizes, s.items
FROM environment e FULL JOIN sizes s ON s.env_id = e.env_id
LEFT JOIN buffer_mixingshare m
    ON m.run_id = %(run)s AND m.env_id = COALESCE(e.env_id, s.env_id)

-- oldest_groups --
-- Find the oldest groups of each environment; COALESCE matches the expression of both indexes.
-- JSON, because PostgreSQL plans a statement again each time if its estimates depend on the length
-- of an array, which takes four times as long as reading the rows.
SELECT g.*
FROM json_to_recordset(%s) AS w(env_id int, length int)
CROSS JOIN LATERAL (
    SELECT w.env_id, id, sequences, codec, crc32, segment, object, "offset", size_bytes FROM buffer_trajectorygroup
    WHERE run_id = %s AND state = 'queued' AND COALESCE(env_id, -1) = w.env_id
    ORDER BY id LIMIT w.length
) g

-- groups_by_size --
-- Find the oldest groups of given sizes behind a group.
SELECT g.id
FROM unnest(%s::int[], %s::int[], %s::bigint[], %s::int[]) AS w(env_id, size, after, length)
CROSS JOIN LATERAL (
    SELECT id FROM buffer_trajectorygroup
    WHERE run_id = %s AND state = 'queued' AND COALESCE(env_id, -1) = w.env_id
    AND sequences = w.size AND id > w.after
    ORDER BY id LIMIT w.length
) g

-- move_items --
-- Move and count the items of a batch that is not sampled; follows WITH.
moved AS (
    UPDATE {table} i SET state = %(to)s::text, drop_reason = %(reason)s::text,
        batch_id = CASE WHEN %(to)s::text <> 'queued' THEN batch_id END,
        position = CASE WHEN %(to)s::text <> 'queued' THEN position END
    WHERE batch_id = %(batch)s AND state = %(source)s::text
    AND (%(only)s::int[] IS NULL OR position = ANY(%(only)s::int[]))
    RETURNING {columns}
), {count_moved}
SELECT COUNT(*) FROM moved

-- confirm_batch --
-- Settle a batch as trained on; precedes `move_items`.
confirmed AS (
    UPDATE buffer_batch SET state = 'confirmed', settled_at = statement_timestamp()
    WHERE id = %(batch)s AND state IN ('leased', 'returned', 'quarantined')
),

-- stored_amounts --
-- Sum up what a run holds and has admitted.
SELECT COALESCE(SUM(items) FILTER (WHERE kind = %(kind)s AND state = ANY(%(open)s::text[])), 0)
        ::bigint,
    COALESCE(SUM(size_bytes) FILTER (WHERE state = ANY(%(open)s::text[])), 0)::bigint,
    COALESCE(SUM(items) FILTER (
        WHERE kind = %(kind)s AND state = 'queued' AND epoch = %(epoch)s
    ), 0)::bigint,
    COALESCE(SUM(CASE state WHEN 'accepted' THEN sequences
                           WHEN 'dropped' THEN -sequences END)
        FILTER (WHERE kind = %(kind)s AND (%(any_epoch)s OR epoch = %(epoch)s)), 0)::bigint,
    (SELECT MIN(step) FROM runs_policyversion
     WHERE run_id = %(run)s AND epoch = %(epoch)s AND %(policy_step)s > 0)
FROM buffer_tally WHERE run_id = %(run)s

-- arrival_drops --
-- Count the groups that were dropped on arrival; the newest dropped group decides whether a run is
-- examined, so that others cost one index lookup.
SELECT r.id, r.name, newest.drop_reason, counted.dropped, counted.groups
FROM runs_run r, LATERAL (
    SELECT drop_reason FROM buffer_trajectorygroup
    WHERE run_id = r.id AND state = 'dropped' AND received_at > %(since)s
    ORDER BY id DESC LIMIT 1) newest, LATERAL (
    SELECT COUNT(*) AS groups, COUNT(*) FILTER (WHERE reason = newest.drop_reason) AS dropped
    FROM (
        SELECT MAX(reason) AS reason FROM (
            (SELECT id, '' AS reason FROM buffer_trajectorygroup
                WHERE run_id = r.id AND segment IS NOT NULL ORDER BY id DESC LIMIT %(newest)s)
            UNION ALL
            (SELECT id, drop_reason FROM buffer_trajectorygroup
                WHERE run_id = r.id AND state = 'dropped' ORDER BY id DESC LIMIT %(newest)s)
        ) either GROUP BY id ORDER BY id DESC LIMIT %(newest)s) latest) counted
WHERE r.archived_at IS NULL AND r.status = ANY(%(active)s)
    AND (%(run)s::bigint IS NULL OR r.id = %(run)s)
    AND newest.drop_reason = ANY(%(reasons)s)
ORDER BY r.id DESC LIMIT %(most)s

-- queued_fragments --
-- Count the queued fragments of an epoch.
SELECT COALESCE(SUM(items), 0)::bigint FROM buffer_tally
WHERE run_id = %s AND kind = 'fragments' AND state = 'queued' AND epoch = %s

-- uses_of_batch --
-- Read the fragments of a sampled batch, with their weights.
SELECT item_id, importance_weight FROM buffer_batchuse
WHERE batch_id = %s ORDER BY position

-- insert_batch --
-- Create a batch from its items in the CTE `moved`, as the run's next ordinal.
stepped AS (
    UPDATE runs_run SET served_steps = %(ordinal)s WHERE id = %(run)s
), made AS (
    INSERT INTO buffer_batch
        (id, run_id, kind, ordinal, state, epoch, policy_step, trainer_id, fence, leased_at,
         lease_expires_at, sender, sending_since, lease_expiries, sampler, shares, items,
         sequences, size_bytes, tokens, longest_tokens, composition, staleness)
    SELECT %(batch)s, %(run)s, %(kind)s, %(ordinal)s, 'leased', %(epoch)s, %(policy_step)s,
        %(trainer)s, 1, statement_timestamp(),
        statement_timestamp() + make_interval(secs => %(lease_seconds)s), %(sender)s::text,
        CASE WHEN %(sender)s::text <> '' THEN statement_timestamp() END, 0, %(sampler)s,
        %(shares)s, COUNT(*), COALESCE(SUM(sequences), 0), COALESCE(SUM(size_bytes), 0),
        COALESCE(SUM(tokens), 0), COALESCE(MAX(longest_tokens), 0),
        COALESCE(%(composition)s::jsonb, (
            SELECT jsonb_object_agg(environment, items) FROM (
                SELECT environment, COUNT(*) AS items FROM moved GROUP BY 1
            ) AS e
        ), '{}'), (
            SELECT COALESCE(jsonb_object_agg(behind, items), '{}') FROM (
                SELECT GREATEST(%(current_step)s - policy_step, 0) AS behind, COUNT(*) AS items
                FROM moved WHERE epoch = %(current_epoch)s AND policy_step IS NOT NULL
                GROUP BY 1
            ) AS b
        )
    FROM moved
    RETURNING leased_at, lease_expires_at, sending_since, items, sequences, size_bytes,
        tokens, longest_tokens, composition, staleness
)

-- lock_run --
-- Lock a run until the transaction ends, and read the database's clock.
SELECT pg_advisory_xact_lock(hashtext('rolldeck.batch'), %s::int), clock_timestamp()

-- confirm_sample --
-- Settle a sampled batch, and confirm its uses.
WITH settled AS (
    UPDATE buffer_batch SET state = 'confirmed', settled_at = statement_timestamp()
    WHERE id = %(batch)s AND state = ANY(%(unsettled)s::text[])
)
UPDATE buffer_fragmentchunk f SET
    confirmed = f.confirmed + 1,
    state = CASE WHEN f.state = 'leased' AND f.confirmed + 1 = f.uses
        THEN 'served' ELSE f.state END
FROM buffer_batchuse u JOIN buffer_fragmentchunk o ON o.id = u.item_id
WHERE u.batch_id = %(batch)s AND f.id = u.item_id
RETURNING o.state, f.state, f.epoch, f.size_bytes, f.environment

-- return_uses --
-- Return the uses of a sampled batch.
UPDATE buffer_fragmentchunk f SET uses = f.uses - 1, state = 'queued'
FROM buffer_batchuse u JOIN buffer_fragmentchunk o ON o.id = u.item_id
WHERE u.batch_id = %(batch)s AND f.id = u.item_id
RETURNING o.state, f.state, f.epoch, f.size_bytes, f.environment

-- add_uses --
-- Add sampled chunks to a batch.
WITH members AS (
    SELECT f.id, picked.weight, row_number() OVER (ORDER BY picked.place, f.number) - 1 AS place
    FROM unnest(%(ids)s::bigint[], %(weights)s::float8[]) WITH ORDINALITY
        AS picked(id, weight, place)
    JOIN buffer_fragmentchunk f ON f.{key} = picked.id
), taken AS (
    UPDATE buffer_fragmentchunk f SET
        uses = f.uses + 1,
        state = CASE WHEN f.uses + 1 >= %(max_reuse)s THEN 'leased' ELSE f.state END
    -- Before the first ANALYZE, the planner expects few queued rows and would scan all of them
    -- for each id. Therefore the ids are an array, and the state expression has no index.
    FROM members WHERE f.id = ANY(ARRAY(SELECT id FROM members)) AND f.id = members.id
        AND COALESCE(f.state, '') = 'queued'
    RETURNING f.id, f.state, f.environment, f.size_bytes,
        members.place, members.weight
), noted AS (
    INSERT INTO buffer_batchuse (batch_id, item_id, position, importance_weight)
    SELECT %(batch)s, id, place, weight FROM taken
)
SELECT environment, size_bytes, state FROM taken

-- add_changes --
-- Add the rows of the CTE `changes` to the counts.
INSERT INTO buffer_tally AS t
    (run_id, kind, state, reason, epoch, env_id, environment, size, shard,
     items, sequences, size_bytes)
SELECT %(run)s, %(kind)s, state, reason, epoch, env_id, environment, size, pg_backend_pid() %% 8,
    SUM(items), SUM(sequences), SUM(size_bytes)
FROM changes GROUP BY state, reason, epoch, env_id, environment, size ORDER BY state, reason, epoch, env_id, environment, size
ON CONFLICT (run_id, kind, state, reason, epoch, env_id, environment, size, shard)
DO UPDATE SET items = t.items + excluded.items, sequences = t.sequences + excluded.sequences,
    size_bytes = t.size_bytes + excluded.size_bytes

-- count_changes --
-- Add changes to the counts.
WITH changes AS (SELECT * FROM json_to_recordset(%(counts)s) AS c(
state text, reason text, epoch int, env_id int, environment text, size int,
items bigint, sequences bigint, size_bytes bigint)) {add_changes}

-- count_pushes --
-- Add the counts of the pushes in the CTE `stored_pushes`.
changes AS (
    SELECT c.* FROM json_to_recordset(%(counts)s) AS c(push int,
state text, reason text, epoch int, env_id int, environment text, size int,
items bigint, sequences bigint, size_bytes bigint)
    JOIN stored_pushes USING (push)
), counted AS ({add_changes})

-- count_moved --
-- Count the items of the CTE `moved` from `source` to `to`, as `Changes.move` does, without a
-- round trip.
changes AS (
    SELECT f.state, f.reason, m.epoch, COALESCE(m.env_id, -1) AS env_id,
        m.environment, f.sign AS items, f.sign * m.sequences AS sequences,
        f.sign * m.size_bytes::bigint AS size_bytes,
        CASE WHEN %(kind)s = 'groups'
                AND f.state IN ('queued', 'waiting')
            THEN m.sequences ELSE 0 END AS size
    FROM moved m CROSS JOIN (
        VALUES (%(source)s::text, '', -1), (%(to)s::text, %(reason)s::text, 1)
    ) AS f(state, reason, sign)
), counted AS ({add_changes})

-- update_priorities --
-- Set priorities; a chunk is sampled by its head, which gets the highest priority of its
-- fragments.
UPDATE buffer_fragmentchunk f SET priority = updates.priority
FROM (
    SELECT COALESCE(m.chunk, m.id) AS head, max(u.priority) AS priority
    FROM unnest(%(ids)s::bigint[], %(priorities)s::float8[]) AS u(id, priority)
    JOIN buffer_fragmentchunk m ON m.id = u.id AND m.run_id = %(run)s
    WHERE %(batch)s::uuid IS NULL OR EXISTS (
        SELECT FROM buffer_batchuse b WHERE b.batch_id = %(batch)s AND b.item_id = m.id
    )
    GROUP BY head
) updates
WHERE f.id = updates.head AND f.state IN ('queued', 'leased')

-- load_chunks --
-- Read the metadata of all chunks in one row, because fetching 100,000 rows takes longer than
-- sampling them.
SELECT array_agg(c.id), {values} FROM (
    SELECT id, {value} AS value FROM buffer_fragmentchunk
    WHERE run_id = %s AND epoch = %s AND state = 'queued' {heads} ORDER BY id {limit}
) c

-- queued_range --
-- Count the queued fragments, and find their first and last ids. Before the first ANALYZE, the
-- planner expects few queued rows and would scan all of them for the ends and for each id;
-- therefore the ends are ordered, and only the primary key fits the ids of `available_chunks`.
SELECT COALESCE(SUM(items), 0)::bigint AS items,
    (SELECT id FROM buffer_fragmentchunk
     WHERE run_id = %(run)s AND epoch = %(epoch)s AND state = 'queued' ORDER BY id LIMIT 1) AS first_id,
    (SELECT id FROM buffer_fragmentchunk
     WHERE run_id = %(run)s AND epoch = %(epoch)s AND state = 'queued'
     ORDER BY id DESC LIMIT 1) AS last_id
FROM buffer_tally
WHERE run_id = %(run)s AND kind = 'fragments' AND state = 'queued' AND epoch = %(epoch)s

-- available_chunks --
-- Find the drawn chunks that are queued.
SELECT id FROM buffer_fragmentchunk
WHERE id = ANY(%(ids)s::bigint[]) AND run_id + 0 = %(run)s AND epoch = %(epoch)s
    AND COALESCE(state, '') = 'queued' {heads}

-- create_sampled_batch --
-- Create a sampled batch from the fragments that it uses.
WITH moved AS (
    SELECT i.epoch, NULL::int AS env_id, i.environment, 1 AS sequences,
    i.size_bytes, 0 AS tokens, 0 AS longest_tokens, i.version_min AS policy_step
    FROM buffer_batchuse u JOIN buffer_fragmentchunk i ON i.id = u.item_id
    WHERE u.batch_id = %(batch)s
), {insert_batch}
SELECT * FROM made

-- insert_payloads --
-- Insert the bytes of items from small pushes.
INSERT INTO buffer_payload (segment, kind, item_id, content)
SELECT segment, %s, item_id, content
FROM unnest(%s::int[], %s::bigint[], %s::bytea[]) AS p(segment, item_id, content)

-- evict_fragments --
-- Evict fragments; see the module for the states that they get.
WITH doomed AS (
    SELECT id, state FROM buffer_fragmentchunk
    WHERE id = ANY(%(ids)s) AND state = ANY(%(states)s) ORDER BY id FOR UPDATE
)
UPDATE buffer_fragmentchunk f SET
    state = CASE WHEN %(batches_live)s AND f.uses > f.confirmed THEN 'leased'
        WHEN f.confirmed > 0 THEN 'served' ELSE 'dropped' END,
    drop_reason = CASE WHEN f.confirmed > 0 OR (%(batches_live)s AND f.uses > f.confirmed)
        THEN '' ELSE %(reason)s END,
    uses = CASE WHEN %(batches_live)s THEN f.uses ELSE f.confirmed END
FROM doomed WHERE f.id = doomed.id
RETURNING doomed.state, f.state, f.epoch, f.size_bytes, f.environment

-- move_payloads --
-- Store the new locations of copied bytes.
UPDATE {table} i
SET segment = r.segment, object = r.object, "offset" = r."offset"
FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::bigint[])
    AS r(id, segment, object, "offset")
WHERE i.id = r.id AND i.segment = %s

-- newest_groups --
-- Read the run's newest groups within a window, limited to the newest of each state.
SELECT state, longest_tokens, score_mean, env_id::text, sequences FROM (
    SELECT id, state, longest_tokens, score_mean, env_id, sequences,
        row_number() OVER (PARTITION BY state ORDER BY id DESC) AS place
    FROM (
        SELECT * FROM buffer_trajectorygroup WHERE run_id = %(run)s
        ORDER BY run_id, id DESC LIMIT %(rows)s
    ) AS newest
    WHERE received_at >= now() - make_interval(secs => %(seconds)s)
) AS placed WHERE place <= %(most)s

-- newest_fragments --
-- Read the run's newest fragments within a window, limited to the newest of each state.
SELECT state, steps, NULL, environment FROM (
    SELECT id, state, steps, environment,
        row_number() OVER (PARTITION BY state ORDER BY id DESC) AS place
    FROM (
        SELECT * FROM buffer_fragmentchunk WHERE run_id = %(run)s
        ORDER BY run_id, id DESC LIMIT %(rows)s
    ) AS newest
    WHERE received_at >= now() - make_interval(secs => %(seconds)s)
) AS placed WHERE place <= %(most)s

-- counts_of_runs --
-- Sum up what runs accepted, queue, and dropped for zero variance.
SELECT run_id,
    COALESCE(SUM(items) FILTER (WHERE state = 'accepted'), 0)::bigint,
    COALESCE(SUM(sequences) FILTER (WHERE state = 'queued'), 0)::bigint,
    COALESCE(SUM(items) FILTER (WHERE reason = 'zero_variance'), 0)::bigint
FROM buffer_tally WHERE run_id = ANY(%s) GROUP BY run_id

-- groups_after --
-- Summarise the groups after a cursor by the interval of their arrival, and by environment; they
-- are of finished transactions or of this one: no group can still appear before these.
WITH new AS MATERIALIZED (
    SELECT i.written_in, i.id, i.env_id, i.received_at, i.sequences, i.tokens, i.longest_tokens,
        i.score_mean, i.score_min = i.score_max AS is_equal,
        width_bucket(i.received_at, %(bounds)s::timestamptz[]) AS interval_
    FROM buffer_trajectorygroup i
    WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
    AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
    AND (i.written_in < pg_snapshot_xmin(pg_current_snapshot())
        OR i.written_in = pg_current_xact_id_if_assigned())
    ORDER BY i.written_in DESC, i.id DESC LIMIT %(limit)s
)
SELECT (SELECT n.written_in::text::bigint FROM new n
        ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
    (SELECT n.id FROM new n ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
    count(*), count(*) FILTER (WHERE is_equal), min(received_at),
    sum(tokens)::float8 / sum(sequences), max(longest_tokens)::float8,
    avg(score_mean::numeric) FILTER (WHERE abs(score_mean) < 'Infinity')::float8,
    percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY score_mean)
        FILTER (WHERE abs(score_mean) < 'Infinity'),
    interval_, e.desired_name
FROM new LEFT JOIN runs_environment e ON e.run_id = %(run)s AND e.env_id = new.env_id
GROUP BY GROUPING SETS ((interval_), (e.desired_name)) ORDER BY interval_, count(*) DESC

-- truncated_after --
-- Summarise the digests after a cursor, which follow the groups in the order of transactions, with
-- a delay.
WITH new AS MATERIALIZED (
    SELECT i.written_in, i.id, i.sequences
    FROM buffer_digestcursor c CROSS JOIN LATERAL (
        SELECT g.written_in, g.id, g.sequences FROM buffer_trajectorygroup g
        WHERE g.run_id = c.run_id AND g.segment IS NOT NULL
        AND (g.written_in, g.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
        AND (g.written_in, g.id) <= (c.written_in, c.item_id)
        ORDER BY g.written_in DESC, g.id DESC LIMIT %(limit)s
    ) i WHERE c.run_id = %(run)s
)
SELECT (SELECT n.written_in::text::bigint FROM new n
        ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
    (SELECT n.id FROM new n ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
    sum(d.truncated)::float8 / sum(new.sequences)
FROM new JOIN buffer_groupdigest d ON d.group_id = new.id

-- is_batch_available --
-- Whether a request for a batch may find one.
SELECT t.id IS NULL OR r.trainer_started_at IS NULL
OR t.last_seen_at < statement_timestamp() - interval '5 seconds'
OR EXISTS (
    SELECT FROM buffer_batch b
    WHERE b.run_id = r.id AND NOT b.id = ANY(%(holding)s::uuid[])
    AND (b.state = 'returned' OR (b.state = 'leased' AND b.trainer_id = t.id))
) OR COALESCE(%(count)s::int, r.batch_size) <= (
    SELECT SUM(sequences) FROM buffer_tally WHERE run_id = r.id AND state = 'queued'
)
FROM runs_run r LEFT JOIN runs_trainer t ON t.run_id = r.id AND t.identity = %(identity)s
WHERE r.id = %(run)s

-- oldest_queued_groups --
-- Find when the oldest queued group of each environment arrived.
SELECT e.id, (SELECT received_at FROM buffer_trajectorygroup
    WHERE run_id = %s AND COALESCE(env_id, -1) = e.id AND state = 'queued'
    ORDER BY id LIMIT 1)
FROM unnest(%s::int[]) AS e(id)

-- oldest_waiting_groups --
-- Find when the oldest waiting group of each environment arrived.
SELECT e.id, (SELECT received_at FROM buffer_trajectorygroup
    WHERE run_id = %s AND env_id = e.id AND state = 'waiting'
    ORDER BY id LIMIT 1)
FROM unnest(%s::int[]) AS e(id)

-- oldest_queued_fragments --
-- Find when the oldest queued fragment of each environment arrived.
SELECT e.name, (SELECT received_at FROM buffer_fragmentchunk
    WHERE run_id = %s AND epoch = %s AND environment = e.name AND state = 'queued'
    ORDER BY id LIMIT 1)
FROM unnest(%s::text[]) AS e(name)

-- earlier_batch --
-- Find the ordinal of the first batch that the trainer received before a row of `buffer_batch` and
-- still holds.
(
    SELECT min(e.ordinal) FROM buffer_batch e
    WHERE e.run_id = buffer_batch.run_id AND e.trainer_id = buffer_batch.trainer_id
    AND e.state = 'leased' AND e.ordinal < buffer_batch.ordinal
    AND e.leased_at < buffer_batch.leased_at)

-- both_ledgers --
-- Read the counts and the rows of a run at one moment.
SELECT 'counts', kind, state, reason, SUM(items) FROM buffer_tally
WHERE run_id = %(run)s GROUP BY kind, state, reason
UNION ALL
SELECT 'rows', 'groups', state, drop_reason, COUNT(*)
FROM buffer_trajectorygroup WHERE run_id = %(run)s GROUP BY state, drop_reason
UNION ALL
SELECT 'rows', 'fragments', state, drop_reason, COUNT(*)
FROM buffer_fragmentchunk WHERE run_id = %(run)s GROUP BY state, drop_reason

-- audits_due --
-- Find the runs whose counts have changed since their last audit.
SELECT t.run_id, t.counts_md5
FROM (
    SELECT run_id, md5(string_agg(
        concat_ws('/', kind, state, reason, items, size_bytes), ','
        ORDER BY kind, state, reason, epoch, env_id, environment, size, shard)) AS counts_md5
    FROM buffer_tally GROUP BY run_id
) t
JOIN runs_run r ON r.id = t.run_id
LEFT JOIN buffer_ledgeraudit a ON a.run_id = t.run_id
WHERE r.archived_at IS NULL AND (a.id IS NULL OR (
    (a.counts_md5 <> t.counts_md5 OR r.ledger_problem <> '')
    AND a.audited_at + make_interval(secs => GREATEST(%(every)s, a.took_seconds / %(share)s))
        <= %(now)s))
ORDER BY a.audited_at NULLS FIRST

-- oldest_chunks --
-- Find the oldest chunks of a run, beyond its capacity.
{queued_heads} AND id <> ALL(%(gone)s) ORDER BY id LIMIT %(over)s

-- chunks_beyond --
-- Find the chunks of an environment beyond its capacity.
{queued_heads} AND environment = %(environment)s ORDER BY id DESC OFFSET %(most)s

-- queued_heads --
-- Find the heads of the queued chunks.
SELECT id FROM buffer_fragmentchunk
WHERE run_id = %(run)s AND epoch = %(epoch)s AND state = 'queued'
AND (chunk IS NULL OR chunk = id)

-- may_remove_objects --
-- Lock objects against a backup that copies them and against retention; false while one runs.
SELECT pg_try_advisory_xact_lock_shared(hashtext('rolldeck.retention'))

-- insert_tensors --
-- Insert tensors, or replace those with the same keys, with the object of a small push; return the
-- objects that held the keys before.
WITH small AS (
    INSERT INTO buffer_tensorobject (run_id, name, content, size_bytes, created_at)
    SELECT %(run)s, '', %(content)s, %(size)s, %(now)s WHERE %(object)s::bigint IS NULL
    RETURNING id
), stored AS (
    INSERT INTO buffer_storedtensor
        (run_id, key, dtype, codec, shape, object_id, "offset", size_bytes, crc32)
    SELECT %(run)s, key, dtype, codec, shape::bigint[],
        COALESCE(%(object)s::bigint, (SELECT id FROM small)), start, size, crc
    FROM unnest(
            %(keys)s::text[], %(dtypes)s::text[], %(codecs)s::text[], %(shapes)s::text[],
            %(offsets)s::bigint[], %(sizes)s::bigint[], %(checksums)s::bigint[]
        ) AS t(key, dtype, codec, shape, start, size, crc)
    ORDER BY key COLLATE "C"
    ON CONFLICT (run_id, key) DO UPDATE SET
        dtype = excluded.dtype, codec = excluded.codec, shape = excluded.shape,
        object_id = excluded.object_id, "offset" = excluded."offset",
        size_bytes = excluded.size_bytes, crc32 = excluded.crc32
)
SELECT DISTINCT object_id FROM buffer_storedtensor
WHERE run_id = %(run)s AND key = ANY(%(keys)s)

-- lock_tensors --
-- Lock the tensors with one of the prefixes, in the order of their keys.
SELECT t.id FROM unnest(%s::text[]) AS p(prefix) JOIN buffer_storedtensor t
    ON t.run_id = %s AND t.key >= p.prefix COLLATE "C" AND t.key < (p.prefix || %s) COLLATE "C"
ORDER BY t.key FOR UPDATE OF t

-- move_tensors --
-- Replace prefixes of the keys of tensors.
UPDATE buffer_storedtensor t SET key = m.new || substr(t.key, length(m.old) + 1)
FROM unnest(%s::text[], %s::text[]) AS m(old, new)
WHERE t.run_id = %s AND t.key >= m.old COLLATE "C" AND t.key < (m.old || %s) COLLATE "C"

-- items_after --
-- The items after a cursor, of finished transactions only: no item can still appear before these.
FROM {table} i
WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
AND i.written_in < pg_snapshot_xmin(pg_current_snapshot())
AND NOT EXISTS (
    SELECT FROM buffer_segment s WHERE s.number = i.segment AND s.dropped_at IS NOT NULL
) {only}

-- read_items_after --
-- Read the items after the cursor of a follower.
SELECT i.written_in::text::bigint, i.id {items_after}
ORDER BY i.written_in, i.id LIMIT %(count)s

-- count_items_after --
-- Count the items after the cursor of a follower, up to 100,000.
SELECT count(*) FROM (SELECT 1 {items_after} LIMIT 100000) behind

-- item_exists --
-- Whether a run has an item at a cursor.
SELECT EXISTS (SELECT FROM {table} i WHERE i.id = %(item)s AND i.run_id = %(run)s
AND i.written_in = %(written_in)s::text::xid8)

-- oldest_open_transaction --
-- The number of the oldest transaction that is not finished.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text

-- advance_follower --
-- Advance the cursor of a follower.
UPDATE buffer_follower
SET cursor_written_in = %(written_in)s::text::xid8, cursor_id = %(item)s, acked_at = %(now)s
WHERE run_id = %(run)s AND name = %(name)s
AND (cursor_written_in, cursor_id) <= (%(written_in)s::text::xid8, %(item)s::bigint)

-- digests_due --
-- Find the runs with groups to digest, least recently digested first.
SELECT t.run_id, SUM(t.items)::bigint
FROM buffer_tally t LEFT JOIN buffer_digestcursor c ON c.run_id = t.run_id
WHERE t.kind = 'groups' AND t.state = 'accepted'
GROUP BY t.run_id, c.accepted, c.digested_at
HAVING SUM(t.items) <> COALESCE(c.accepted, 0)
ORDER BY c.digested_at NULLS FIRST

-- groups_to_digest --
-- Read the next groups to digest, of finished transactions only: no group can still appear before
-- these.
SELECT i.written_in::text, i.id, i.env_id, i.score_mean, i.longest_tokens
FROM buffer_trajectorygroup i
WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
AND i.written_in < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY i.written_in, i.id LIMIT %(limit)s

-- groups_to_renew --
-- Read the digested groups below an id, newest first.
SELECT i.written_in::text, i.id, i.env_id, i.score_mean, i.longest_tokens
FROM buffer_trajectorygroup i
WHERE i.run_id = %(run)s AND i.segment IS NOT NULL AND i.id < %(before)s
AND EXISTS (SELECT FROM buffer_groupdigest d WHERE d.group_id = i.id)
ORDER BY i.id DESC LIMIT %(limit)s

-- has_groups_to_digest --
-- Whether a run has groups after a cursor.
SELECT EXISTS (SELECT FROM buffer_trajectorygroup i
WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint))

-- count_partly_searchable --
-- The number of groups of runs with text that is not searchable, up to a limit.
SELECT count(*) FROM (
    SELECT FROM buffer_groupdigest
    WHERE run_id = ANY(%(runs)s::bigint[]) AND (is_cut OR is_cut IS NULL) LIMIT %(limit)s
) found

-- insert_digests --
-- Insert digests, or replace those of the same groups.
INSERT INTO buffer_groupdigest
    (group_id, run_id, lesson, worker, example, scores, lengths, truncated, duplicates,
     excerpt, answer, prompt, words, is_cut, score_mean, longest_tokens, has_gradient,
     facts, advantages, correct)
SELECT r.id, %(run)s, r.lesson, r.worker, r.example, r.scores, r.lengths, r.truncated,
    r.duplicates, r.excerpt, r.answer, r.prompt,
    to_tsvector('simple', r.text) || array_to_tsvector(ARRAY[%(word)s]),
    r.is_cut, r.score_mean, r.longest_tokens, r.has_gradient, r.facts, r.advantages, r.correct
FROM json_to_recordset(%(rows)s) AS r(
    id bigint, lesson text, worker text, example text, scores float8[], lengths int[],
    truncated int, duplicates int, excerpt text, answer text, prompt uuid, text text,
    is_cut boolean, score_mean float8, longest_tokens int, has_gradient boolean, facts jsonb,
    advantages float8[], correct int)
ON CONFLICT (group_id) DO UPDATE SET
    lesson = excluded.lesson, worker = excluded.worker, example = excluded.example,
    scores = excluded.scores, lengths = excluded.lengths, truncated = excluded.truncated,
    duplicates = excluded.duplicates, excerpt = excluded.excerpt, answer = excluded.answer,
    prompt = excluded.prompt, words = excluded.words, is_cut = excluded.is_cut,
    score_mean = excluded.score_mean, longest_tokens = excluded.longest_tokens,
    has_gradient = excluded.has_gradient, facts = excluded.facts,
    advantages = excluded.advantages, correct = excluded.correct

-- fragment_row --
-- Columns of a fragment `f` and its batch `b` in a list.
f.id, f.slot, f.number, f.contiguous, f.environment, f.worker, f.epoch,
f.version_min, f.version_max, f.steps, f.state, f.drop_reason, f.batch_id::text, b.ordinal,
f.uses, f.received_at, f.size_bytes, f.segment IS NOT NULL

-- is_fragment_of_batches --
-- The condition that batches hold a fragment `f`.
f.id IN (
    SELECT id FROM buffer_fragmentchunk WHERE batch_id = ANY(%(batches)s::uuid[])
    UNION SELECT item_id FROM buffer_batchuse WHERE batch_id = ANY(%(batches)s::uuid[]))

-- fragment --
-- Read a fragment.
SELECT {fragment_row} FROM buffer_fragmentchunk f
LEFT JOIN buffer_batch b ON b.id = f.batch_id
WHERE f.id = %(fragment)s AND f.run_id = %(run)s

-- fragments_beside --
-- Find fragments of a slot by their numbers.
SELECT number, id FROM buffer_fragmentchunk
WHERE run_id = %(run)s AND slot = %(slot)s AND number = ANY(%(numbers)s::bigint[])

-- fragment_from --
-- Read the first fragment of a slot with bytes and at least a number.
SELECT {fragment_row} FROM buffer_fragmentchunk f LEFT JOIN buffer_batch b ON b.id = f.batch_id
WHERE f.run_id = %(run)s AND f.slot = %(slot)s AND f.number >= %(number)s
    AND f.segment IS NOT NULL
ORDER BY f.number LIMIT 1

-- ends_of_slot --
-- Find the first and the last number of a slot.
SELECT MIN(number), MAX(number) FROM buffer_fragmentchunk
WHERE run_id = %(run)s AND slot = %(slot)s

-- long_slot --
-- Find a slot by the end of its name, which ids of episodes hold.
SELECT slot FROM buffer_fragmentchunk
WHERE run_id = %(run)s AND right(slot, %(length)s) = %(slot)s LIMIT 1

-- count_undigested --
-- Count the groups of a run after a cursor, up to 10,000.
SELECT count(*) FROM (
    SELECT 1 FROM buffer_trajectorygroup i
    WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
    AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
    LIMIT 10000
) behind

-- ends_of_groups --
-- Find the first and the last group of a run with bytes.
SELECT (SELECT id FROM buffer_trajectorygroup
        WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id LIMIT 1),
    (SELECT id FROM buffer_trajectorygroup
        WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id DESC LIMIT 1)

-- spread_groups --
-- Read a few groups of each id range; ids rise with time, so that each range costs few index steps.
SELECT s.low, g.received_at, g.env_id, COALESCE(d.lesson, ''), g.score_mean, g.longest_tokens
FROM generate_series(%(first)s::bigint, %(last)s::bigint, %(step)s::bigint) AS s(low)
CROSS JOIN LATERAL (
    SELECT id, received_at, env_id, score_mean, longest_tokens FROM buffer_trajectorygroup
    WHERE run_id = %(run)s AND segment IS NOT NULL
    AND id >= s.low AND id < s.low + %(step)s::bigint
    ORDER BY id DESC LIMIT %(each)s
) g LEFT JOIN buffer_groupdigest d ON d.group_id = g.id

-- newest_gradients --
-- Summarise the newest groups of a run if none has a gradient.
SELECT count(*), count(*) FILTER (WHERE score_min = score_max),
    min(score_mean), max(score_mean)
FROM (
    SELECT g.score_min, g.score_max, g.score_mean, d.has_gradient FROM (
        SELECT id, score_min, score_max, score_mean, received_at FROM buffer_trajectorygroup
        WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id DESC LIMIT %(newest)s
    ) g JOIN buffer_groupdigest d ON d.group_id = g.id
    WHERE g.received_at > %(since)s AND d.has_gradient IS NOT NULL
) seen HAVING count(*) >= %(fewest)s AND NOT bool_or(has_gradient)

-- open_segment --
-- Find the open segment.
SELECT number FROM buffer_segment WHERE sealed_at IS NULL

-- insert_segment --
-- Open a segment.
INSERT INTO buffer_segment (number, opened_at, items, size_bytes)
VALUES (%s, now(), 0, 0) ON CONFLICT DO NOTHING

-- find_partition --
-- State of a partition: no row if gone; else whether it is attached, and a detach is pending.
SELECT i.inhparent IS NOT NULL, COALESCE(i.inhdetachpending, false)
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.oid = to_regclass(%s)

-- place --
-- Columns of an item `i` that locate its bytes.
i.id, i.codec, i.crc32, i.segment, i.object, i."offset", i.size_bytes

-- is_segment_dropped --
-- Whether a segment was dropped.
SELECT FROM buffer_segment WHERE number = %s AND dropped_at IS NOT NULL

-- place_of_latest_group --
-- Locate the newest group of a run that is not waiting.
SELECT {place} FROM buffer_trajectorygroup i
WHERE i.run_id = %(key)s AND i.state <> 'waiting' AND i.segment IS NOT NULL
ORDER BY i.id DESC LIMIT 1

-- read_payloads --
-- Read bytes of items from small pushes.
SELECT item_id, substr(content, 1, %s) FROM buffer_payload
WHERE kind = %s AND segment = ANY(%s::int[]) AND item_id = ANY(%s::bigint[])

-- about_groups --
-- Read sizes and times of groups.
SELECT sequences, tokens, longest_tokens, received_at FROM buffer_trajectorygroup
WHERE {which}

-- arrived --
-- Summarise the newest items of a run.
SELECT COUNT(*) FILTER (WHERE received_at > %(since)s),
    COALESCE(SUM(units) FILTER (WHERE received_at > %(since)s AND is_stored), 0)::float8,
    MIN(received_at) FILTER (WHERE received_at > %(since)s),
    MAX(received_at) FILTER (WHERE is_stored),
    COUNT(*) FILTER (WHERE received_at > %(stale_since)s AND drop_reason = ANY(%(stale)s)),
    COUNT(*) FILTER (WHERE received_at > %(stale_since)s
        AND (drop_reason = ANY(%(stale)s) OR state IN ('leased', 'served')))
FROM (
    SELECT received_at, {units} AS units, state, drop_reason, segment IS NOT NULL AS is_stored
    FROM {table} WHERE run_id = %(run)s ORDER BY id DESC LIMIT %(rows)s
) newest

-- places_of_groups --
-- Locate the groups of a batch.
SELECT {place} FROM buffer_trajectorygroup i
WHERE i.batch_id = %(batch)s AND i.position BETWEEN %(first)s AND %(last)s
ORDER BY i.position

-- places_of_fragments --
-- Locate the fragments of a batch; one may be sampled into several batches, and `buffer_batchuse`
-- lists it for each.
SELECT {place}, i.position AS place FROM buffer_fragmentchunk i
WHERE i.batch_id = %(batch)s AND i.position BETWEEN %(first)s AND %(last)s
UNION ALL
SELECT {place}, u.position AS place FROM buffer_batchuse u
JOIN buffer_fragmentchunk i ON i.id = u.item_id
WHERE u.batch_id = %(batch)s AND u.position BETWEEN %(first)s AND %(last)s
ORDER BY place

-- places_of_items --
-- Locate items by their ids.
SELECT {place} FROM {table} i WHERE i.id = ANY(%(key)s::bigint[]) ORDER BY i.id

-- newest_pushed --
-- The newest items of a run; rows with bytes and rows without (dropped on arrival) each have an
-- index, newest first.
SELECT {bytes} AS kept, {environment}, received_at FROM {table}
WHERE run_id = %(run)s AND {bytes} ORDER BY id DESC LIMIT %(rows)s

-- pushed --
-- Count the newest items by environment.
SELECT kept, env_id, environment, COUNT(*), MAX(received_at),
    SUM(COUNT(*)) OVER (PARTITION BY kept), MIN(MIN(received_at)) OVER (PARTITION BY kept)
FROM ({newest}) n WHERE received_at > %(since)s GROUP BY kept, env_id, environment

-- lock_slots --
-- Lock the forming of chunks of slots until the transaction ends.
SELECT pg_advisory_xact_lock(hashtext('rolldeck.slot'), key) FROM (
    SELECT DISTINCT hashtext(name) AS key FROM unnest(%s::text[]) AS name ORDER BY key)

-- lock_marks --
-- Lock changes of a run's marks until the transaction ends.
SELECT pg_advisory_xact_lock(hashtext('rolldeck.marks'), %s::int)

-- lock_restores --
-- Lock restorations into a run until the transaction ends, so that no origin appears after a check.
SELECT pg_advisory_xact_lock(hashtext('rolldeck.restore'), %s::int)

-- known_origins --
-- Find the origins that a run has already.
SELECT origin FROM {table} WHERE run_id = %s AND origin = ANY(%s::text[])

-- archived_items --
-- Read items of an archive, with their batches.
SELECT {columns}, i.size_bytes, s.dropped_at IS NOT NULL
FROM {table} i
LEFT JOIN buffer_batch b ON b.id = i.batch_id
LEFT JOIN buffer_segment s ON s.number = i.segment
WHERE i.segment IS NOT NULL AND i.id > %(after)s {inside} ORDER BY i.id LIMIT %(limit)s

-- count_without_bytes --
-- Count the items of an archive without bytes.
SELECT COUNT(*) FROM {table} i LEFT JOIN buffer_batch b ON b.id = i.batch_id
WHERE i.segment IS NULL {inside}

-- archive_window --
-- Condition of the items of an archive.
AND i.run_id = %(run)s AND i.state = ANY(%(states)s)
AND (%(first)s::int IS NULL OR b.ordinal >= %(first)s)
AND (%(last)s::int IS NULL OR b.ordinal <= %(last)s)

-- has_open_batches --
-- Whether a row of `runs_run` has a returned batch, or one leased to a trainer; the same condition as
-- in the index `batch_open`.
EXISTS (
    SELECT FROM buffer_batch b WHERE b.run_id = runs_run.id
    AND b.state IN ('leased', 'returned')
    AND (b.state = 'returned' OR b.trainer_id = (
        SELECT t.id FROM runs_trainer t WHERE t.run_id = runs_run.id AND t.identity = %s))
)

-- bytes_of_items --
-- Segment, object and size of those of the items whose bytes are stored and not dropped.
SELECT i.id, i.segment, i.object, i.size_bytes
FROM {table} i JOIN buffer_segment s ON s.number = i.segment AND s.dropped_at IS NULL
WHERE i.id = ANY(%s)

-- delete_payloads --
-- Delete the bytes of items of one kind from the partition of a segment.
DELETE FROM buffer_payload WHERE segment = %s AND kind = %s AND item_id = ANY(%s)

-- objects_of_others --
-- Those of the objects of segments that hold bytes of another run.
SELECT DISTINCT object FROM {table}
WHERE segment = ANY(%s) AND object = ANY(%s) AND run_id <> %s

-- claim_problems --
-- Mark the problems that pushed groups answer; return the groups that come after another one.
-- Problems of which there is no row were not leased, and count as free.
WITH locked AS (
    SELECT p.id, p.state, pushed.group_id
    FROM unnest(%(lessons)s::text[], %(numbers)s::bigint[], %(groups)s::bigint[])
        AS pushed (lesson, number, group_id)
    JOIN buffer_lessonproblem p
        ON p.run_id = %(run)s AND p.lesson = pushed.lesson AND p.number = pushed.number
    ORDER BY p.id FOR UPDATE OF p
), claimed AS (
    UPDATE buffer_lessonproblem p SET state = 'answered', "group" = locked.group_id, reason = ''
    FROM locked WHERE p.id = locked.id AND locked.state NOT IN ('answered', 'trained')
)
SELECT group_id FROM locked WHERE state IN ('answered', 'trained')
