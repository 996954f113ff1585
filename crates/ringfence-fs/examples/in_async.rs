//! An environment in asynchronous code: its calls block, so each has a thread that may.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_fs::{Environment, Exec, LocalEnvironment, Root, Writable};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(work())
}

async fn work() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let root = Root::open(dir.path(), Writable::everything())?;
    let environment: Arc<dyn Environment> = Arc::new(LocalEnvironment::with_unfenced_exec(root));

    // Ten tools at once.
    let mut writes = Vec::new();
    for number in 0..10 {
        let environment = Arc::clone(&environment);
        let path = PathBuf::from(format!("notes/{number}.txt"));
        let write = move || environment.write(&path, number.to_string().as_bytes());
        writes.push(tokio::task::spawn_blocking(write));
    }
    for write in writes {
        write.await??;
    }

    // The time limit is the command's: a task that is dropped goes on until the command has ended.
    let exec = Exec::new("/bin/ls", Duration::from_secs(10)).dir("notes");
    let listed = tokio::task::spawn_blocking(move || environment.exec(&exec)).await??;
    assert_eq!(listed.stdout.tail.iter().filter(|byte| **byte == b'\n').count(), 10);
    Ok(())
}
