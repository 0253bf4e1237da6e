//! How long termination messages may be.

/// Longest message of one container, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// Longest messages of all containers of a Pod together, in bytes; shared evenly.
pub const MAX_POD_MESSAGE_BYTES: usize = 12 * 1024;
/// How much of a log stands in for a message (`FallbackToLogsOnError`), in bytes.
pub const MAX_FALLBACK_BYTES: usize = 2048;
/// How much of a log stands in for a message, in lines.
pub const MAX_FALLBACK_LINES: usize = 80;

/// The share of each of so many containers.
#[must_use]
pub fn message_share(containers: usize) -> usize {
    (MAX_POD_MESSAGE_BYTES / containers.max(1)).min(MAX_MESSAGE_BYTES)
}

/// The longest prefix of at most `bytes` bytes that ends at a character.
#[must_use]
pub fn truncated(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
