//! `splunk-logging` of npm, Splunk's own library for Node.

use std::process::Command;

use inrush_tests::*;

const SCRIPT: &str = "const { Logger } = require('splunk-logging');
const [port, token] = process.argv.slice(1);
const logger = new Logger({ token, url: 'http://127.0.0.1:' + port });
const metadata = { index: 'netops', sourcetype: 'peer:test', source: 'src', host: 'h1' };
const send = (message, then) => {
  logger.send({ message, severity: 'warn', metadata }, (error, answer, body) => {
    if (error || body.code !== 0) throw new Error(JSON.stringify([error, body]));
    then();
  });
};
send('one', () => send({ two: 2 }, () => {}));
";

#[test]
#[ignore = "foreign program: make test-peers"]
fn splunk_logging_of_npm_is_served() {
    let (Some(node), Some(modules)) = (tool("node"), peer_tool("npm/node_modules")) else {
        skip!("splunk-logging: no Node here, or npm did not install it");
    };
    let peer = HecPeer::start();
    let mut command = Command::new(node);
    command.args(["-e", SCRIPT, "--", &peer.port(), HEC_TOKEN]);
    run_ok(command.env("NODE_PATH", modules));
    peer.assert_served("npm-splunk-logging");
}
