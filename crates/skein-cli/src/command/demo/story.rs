//! What happens in the demo, as a script.

pub(super) const ANN: &str = "user:ann";
pub(super) const BOB: &str = "user:bob";

/// One step per line. `ACTOR runs COMMAND`, and `fails` if Skein must refuse it. `SESSION reaches STATUS,…` waits.
/// `ACTOR does TEXT` prints a line with the last command, or with the one of `ACTOR types COMMAND`. `SESSION proves
/// WHAT: HOW` prints a line at the end. A `{fact}` is about the session that a line named last. Of a text in quotes, the
/// table shows what is before ` // `; the built-in agent follows the rest.
pub(super) const STORY: &str = r#"user:ann runs skein project add "{repository}"
user:ann types skein init
user:ann does makes a project of a throwaway repository
user:ann runs skein spawn --project demo --agent scripted --prompt-via argv --owner agent:weaver "Refuse empty input // usage 18200 2100 0.12; wait 3; write parser.txt empty input is refused; commit parser: refuse empty input; finish"
user:ann runs skein spawn --project demo --agent scripted --prompt-via argv --owner agent:scout "Shorten the cookie // wait 1; usage 4100 300 0.02; ask It outlives the session. Shorten it? | yes | no; wait 1; write cookie.txt one hour; commit cookie: one hour; finish"
user:ann runs skein spawn --project demo --agent scripted --prompt-via argv --owner agent:herald "Write release notes // wait 1; write notes.md a draft; usage 2500 900 0.02; commit notes: a draft"
user:ann runs skein spawn --project demo --agent scripted --prompt-via argv --owner agent:mender "Migrate accounts // wait 1; write accounts.txt step one of two; usage 9700 1200 0.06; commit accounts: step one"
user:ann runs skein spawn --project demo --agent scripted --prompt-via argv --owner agent:mason "Rebuild the index // write index.txt half of it; usage 6600 400 0.03; wait 5; crash 3"
user:ann does spawns five agents like this one, each in a worktree and a terminal of its own
demo-2 reaches needs_input
{session/owner} does asks: {session/question/text}
user:ann runs skein answer demo-2 yes
user:ann does answers: yes
demo-2 reaches done
demo-1 reaches done
user:ann types skein diff --stat demo-1
{session/owner} does finishes; its commit is on {session/workspace/branch}: {diff/diff}
demo-3 reaches idle
user:ann runs skein handoff demo-3 --to user:bob
user:ann does hands demo-3 over to user:bob: same session, same terminal, new owner
user:ann fails skein handoff demo-3 --to agent:mason --expect-version 1
user:ann does hands it over again, from what she saw before
user:bob runs skein send demo-3 "Name the fixes // append notes.md fixes: parser, cookie; commit notes: fixes; wait 1; finish"
user:bob does tells it to continue; receipt: {receipt/history}
demo-3 reaches done
demo-4 reaches idle
user:ann runs kill -9 {session/runtime/pid}
demo-4 reaches failed,lost
user:ann does kills the process of demo-4: {session/status_reason}
user:ann runs skein restore demo-4
user:ann does restores it in its conversation; it says: {screen}
user:ann runs skein send demo-4 "Go on // append accounts.txt step two of two; usage 8800 700 0.05; commit accounts: step two; wait 1; finish"
user:ann does tells it to continue with the second step
demo-4 reaches done
demo-5 reaches failed
user:ann types skein why demo-5; skein diff --stat demo-5
{session/owner} does crashed. Why: {why/reason}; rule: {why/rule}; not committed and still there: {diff/diff}
demo-1 proves finished: its commit is on branch {session/workspace/branch}
demo-2 proves asked: was answered, went on and finished
demo-3 proves changed hands: {session/owner} owns it; the message was seen as {receipt/state}
demo-4 proves killed -9: restored in its conversation, finished in run {session/run}
demo-5 proves crashed: explained: {why/reason}"#;
