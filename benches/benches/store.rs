//! Durable changes in this process against bare SQLite commits: `cargo bench -p skein-benches`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skein_benches::ledger::Ledger;
use skein_benches::raw::Raw;
use tokio::runtime::Builder;

const WRITERS: u64 = 64;
const EACH: u64 = 10;

fn durable(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads can be started");
    let database = folder.path().join("skein.db");
    let ledger = runtime
        .block_on(Ledger::open(&database))
        .expect("a new ledger");
    runtime
        .block_on(ledger.change())
        .expect("the disk has room");
    let mut raw = Raw::open(
        &folder.path().join("raw.db"),
        &database,
        &[Ledger::written()],
    )
    .expect("a new database");

    let mut group = criterion.benchmark_group("durable");
    group.sample_size(20);
    group.throughput(Throughput::Elements(1));
    group.bench_function("raw commit", |bench| {
        bench.iter(|| raw.commit(1).expect("the disk has room"));
    });
    group.bench_function("one at a time", |bench| {
        bench.iter(|| {
            runtime
                .block_on(ledger.change())
                .expect("the disk has room")
        });
    });
    group.throughput(Throughput::Elements(WRITERS * EACH));
    group.bench_function("64 writers", |bench| {
        bench.iter(|| {
            runtime
                .block_on(ledger.change_together(WRITERS, EACH))
                .expect("the disk has room");
        });
    });
    group.finish();
}

criterion_group!(benches, durable);
criterion_main!(benches);
