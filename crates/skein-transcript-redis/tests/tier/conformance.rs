//! The suites, on one server that is killed for every restart they ask for, and on a cluster.

use std::sync::Arc;

use skein_transcript::{Cold, Hot};
use skein_transcript_conformance::memory::MemoryCold;
use skein_transcript_conformance::{Pair, Subject, cases};

use crate::server::{Cluster, Server, connect};

fn one() -> Subject<dyn Hot> {
    let server = Server::safe();
    Subject::new(server.tier(), move |_| {
        server.kill();
        server.start();
        server.tier()
    })
}

fn cluster() -> Subject<dyn Hot> {
    let cluster = Cluster::start();
    Subject::new(connect(cluster.options()), move |_| {
        connect(cluster.options())
    })
}

fn cold() -> Subject<dyn Cold> {
    Subject::new(Arc::new(MemoryCold::default()), |same| same)
}

fn pair() -> Pair {
    Pair {
        hot: one(),
        cold: cold(),
    }
}

mod hot_tier {
    skein_transcript_conformance::hot_conformance!(super::one);
}

mod hot_tier_on_a_cluster {
    skein_transcript_conformance::hot_conformance!(super::cluster);
}

mod service {
    skein_transcript_conformance::transcript_conformance!(super::pair);
}

#[test]
fn random_histories_agree_with_a_list_on_a_cluster() {
    let mut pair = Pair {
        hot: cluster(),
        cold: cold(),
    };
    cases::transcript::random_histories_agree_with_a_list(&mut pair);
}
