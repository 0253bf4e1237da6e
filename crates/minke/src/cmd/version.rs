//! `minke version`.

use crate::client::Client;
use crate::exit::{Exit, Outcome};
use crate::output::stdout;
use crate::protocol::PROTOCOL;

/// Says which program this is, and which agent runs.
pub(crate) async fn run(client: &Client) -> Outcome {
    let mut text = format!("minke {}\nprotocol {PROTOCOL}\n", env!("CARGO_PKG_VERSION"));
    match client.greet_running().await {
        Ok(Some(connection)) => {
            let agent = connection.agent();
            text.push_str(&format!("agent {} (protocol {}, process {})\n", agent.version, agent.protocol, agent.pid));
        }
        Ok(None) => text.push_str("agent not running\n"),
        // Somebody who may not talk to the agent may still ask which program this is.
        Err(error) => text.push_str(&format!("agent unknown: {}\n", minke_core::runtime::error_chain(&error))),
    }
    stdout::print(&text)?;
    Ok(Exit::Reached)
}
