//! Windows beside runs: asked for by the runtime `tmux`, and never in the way of the agent.

use skein_domain::{Kind, LaunchSettings, Phase, PromptVia, RuntimeKind, Session};
use skein_fleet::Window;
use skein_ledger::spawn::LaunchOptions;
use skein_runtime::window::OpenMode;

use super::world::World;

fn with(runtime: RuntimeKind) -> LaunchOptions {
    LaunchOptions {
        runtime: Some(runtime),
        launch: LaunchSettings {
            prompt_via: Some(PromptVia::Argv),
            ..LaunchSettings::default()
        },
        ..LaunchOptions::default()
    }
}

fn is_spawned(session: &Session) -> bool {
    session.phase != Phase::Spawning
}

#[tokio::test]
async fn l13_a_runtime_whose_windows_cannot_open_is_refused_before_anything_is_made() {
    let world = World::new().await;
    *world.windows.missing.lock().unwrap() = Some("no tmux here");
    let refused = world.try_spawn(with(RuntimeKind::Tmux)).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Refused);
    assert!(refused.to_string().contains("no tmux here"), "{refused}");
    assert!(
        refused
            .hints()
            .iter()
            .any(|hint| hint.contains("--runtime pty"))
    );
    let made = world.requests().ledger.sessions().get("api-1".into()).await;
    assert_eq!(made.unwrap_err().kind(), Kind::NotFound);
    // Nothing else needs windows.
    world.try_spawn(with(RuntimeKind::Pty)).await.unwrap();
}

#[tokio::test]
async fn a_launch_opens_the_window_of_its_session_and_only_if_it_has_one() {
    let world = World::new().await;
    let plain = world.try_spawn(with(RuntimeKind::Pty)).await.unwrap();
    let plain = world.until(&plain, is_spawned).await;
    assert_eq!(world.requests().window(&plain), None);
    let shown = world.try_spawn(with(RuntimeKind::Tmux)).await.unwrap();
    let shown = world.until(&shown, is_spawned).await;
    let window = Window {
        command: format!("look at {}", shown.id),
        problem: None,
    };
    assert_eq!(world.requests().window(&shown), Some(window));
    let opened = world.windows.opened.lock().unwrap().clone();
    assert_eq!(opened, [(shown.id.to_string(), OpenMode::Replace)]);
}

#[tokio::test]
async fn a_window_that_cannot_be_opened_is_told_and_stops_nobody() {
    let world = World::new().await;
    *world.windows.broken.lock().unwrap() = Some("the server hangs");
    let session = world.try_spawn(with(RuntimeKind::Tmux)).await.unwrap();
    let session = world.until(&session, is_spawned).await;
    assert_eq!(session.phase, Phase::Active);
    let problem = world.requests().window(&session).unwrap().problem.unwrap();
    assert!(problem.contains("the server hangs"), "{problem}");
}
