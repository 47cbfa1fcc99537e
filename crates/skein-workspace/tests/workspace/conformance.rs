//! Every kind of workspace keeps the contract.

use skein_workspace::{Clone, Dir, NoWorkspace, Worktree};
use skein_workspace_conformance::{Ability, Fixture, Ground};

mod worktree {
    use super::*;

    fn fresh() -> Fixture {
        let ground = Ground::new();
        Fixture {
            provider: Box::new(Worktree::new(ground.root(), ground.options())),
            ground,
            abilities: vec![Ability::Managed, Ability::Git],
        }
    }

    skein_workspace_conformance::workspace_conformance!(fresh);
}

mod clone {
    use super::*;

    fn fresh() -> Fixture {
        let ground = Ground::new();
        Fixture {
            provider: Box::new(Clone::new(ground.root(), ground.options())),
            ground,
            abilities: vec![Ability::Managed, Ability::Git],
        }
    }

    skein_workspace_conformance::workspace_conformance!(fresh);
}

mod dir {
    use super::*;

    fn fresh() -> Fixture {
        let ground = Ground::new();
        Fixture {
            provider: Box::new(Dir::new(ground.options())),
            ground,
            abilities: vec![Ability::Git],
        }
    }

    skein_workspace_conformance::workspace_conformance!(fresh);
}

mod none {
    use super::*;

    fn fresh() -> Fixture {
        let ground = Ground::new();
        Fixture {
            provider: Box::new(NoWorkspace::new(ground.root())),
            ground,
            abilities: vec![Ability::Managed],
        }
    }

    skein_workspace_conformance::workspace_conformance!(fresh);
}
