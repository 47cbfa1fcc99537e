-- What was said in a conversation of OpenCode after the message ?2, as far as it is whole: one JSON object each.
-- A prompt is whole when something came after it, for its parts are written one by one; a reply when the program says
-- so, or when there is a later one. The first that is not whole holds up those behind it.
-- A conversation that was branched off has copies of what was said before it began.
WITH said (id, created, data) AS (
    SELECT m.id, m.time_created, m.data
    FROM message AS m JOIN session AS s ON s.id = m.session_id
    WHERE m.session_id = ?1 AND m.id > ?2 AND m.time_created >= s.time_created
),
waits (id) AS (
    SELECT min(said.id) FROM said
    WHERE CASE said.data ->> '$.role'
        WHEN 'user' THEN NOT EXISTS (SELECT 1 FROM said AS later WHERE later.id > said.id)
        ELSE said.data ->> '$.time.completed' IS NULL AND said.data ->> '$.error' IS NULL AND NOT EXISTS (
            SELECT 1 FROM said AS later WHERE later.id > said.id AND later.data ->> '$.role' = 'assistant')
    END
)
SELECT json_object('id', said.id, 'at', said.created, 'message', json(said.data), 'parts', json((
    SELECT json_group_array(json(CASE WHEN length(part.data) < 4000000 THEN part.data ELSE json_object(
        'type', part.data ->> '$.type', 'tool', part.data ->> '$.tool', 'callID', part.data ->> '$.callID',
        'text', '[left out: too long]', 'state', json_object('status', 'completed', 'output', '[left out: too long]')
    ) END))
    FROM (SELECT p.data FROM part AS p WHERE p.message_id = said.id ORDER BY p.id) AS part
)))
FROM said
WHERE said.id < coalesce((SELECT id FROM waits), 'n')
ORDER BY said.id LIMIT 64
