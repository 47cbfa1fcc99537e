-- What a conversation of OpenCode has used, with those of its helpers: one JSON object.
-- A conversation that was branched off has copies of what was said before it began, which others have paid.
WITH RECURSIVE own (id, begun) AS (
    SELECT id, time_created FROM session WHERE id = ?1
    UNION
    SELECT s.id, s.time_created FROM session AS s JOIN own ON s.parent_id = own.id
),
said (message) AS (
    SELECT m.data FROM own JOIN message AS m ON m.session_id = own.id AND m.time_created >= own.begun
)
SELECT json_object(
    'input', CAST(total(message ->> '$.tokens.input')
        + total(message ->> '$.tokens.cache.read') + total(message ->> '$.tokens.cache.write') AS INTEGER),
    'output', CAST(total(message ->> '$.tokens.output') + total(message ->> '$.tokens.reasoning') AS INTEGER),
    'cost', total(message ->> '$.cost')
)
FROM said WHERE message ->> '$.role' = 'assistant'
