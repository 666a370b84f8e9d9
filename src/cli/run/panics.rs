//! Panics inside treeward, kept until the tree is no longer drawn.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::cli::view::one_line;

/// How many are kept. Each is in the journal as well, as the detail of the attempt it ended.
const KEPT: usize = 16;

/// Columns of a message.
const MESSAGE: usize = 160;

/// From now on a panic of a worker is kept instead of printed, where it would stand in the middle of the tree. One
/// on the main thread is the command's own failure and is printed as ever.
pub fn keep() -> Receiver<String> {
    let (sender, kept) = sync_channel(KEPT);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some("main") {
            return usual(panic);
        }
        let message = panic.payload_as_str().unwrap_or("a panic without a message");
        let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line())).unwrap_or_default();
        // A full channel: what was kept says enough.
        let _full = sender.try_send(format!("{}{place}", one_line(message, MESSAGE)));
    }));
    kept
}
