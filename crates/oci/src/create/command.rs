//! What a container runs, and with which environment. Pure.

use std::collections::HashMap;

use minke_core::runtime::ContainerConfig;

use super::ImageFacts;

/// Search path where neither image nor manifest names one.
pub(super) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Program and arguments. The manifest's `command` replaces the image's entry point and then also its arguments; the
/// manifest's `args` alone replace the image's arguments. `None`: nothing to run.
pub(super) fn arguments(config: &ContainerConfig, image: &ImageFacts) -> Option<Vec<String>> {
    let entrypoint = if config.command.is_empty() { &image.entrypoint } else { &config.command };
    let args = match (config.args.is_empty(), config.command.is_empty()) {
        (false, _) => config.args.as_slice(),
        (true, true) => image.cmd.as_slice(),
        (true, false) => &[],
    };
    let all: Vec<String> = entrypoint.iter().chain(args).cloned().collect();
    if all.is_empty() { None } else { Some(all) }
}

/// `NAME=value` of each variable, each name once: the image's, then the manifest's over them, with PATH, HOSTNAME,
/// TERM (for a terminal) and HOME where nobody set them.
pub(super) fn environment(config: &ContainerConfig, image: &ImageFacts, hostname: &str, home: &str) -> Vec<String> {
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut out: Vec<String> = Vec::new();
    let mut set = |name: &str, value: &str, replace: bool| match names.get(name) {
        Some(at) if replace => out[*at] = format!("{name}={value}"),
        Some(_) => {}
        None => {
            names.insert(name.to_owned(), out.len());
            out.push(format!("{name}={value}"));
        }
    };
    set("PATH", DEFAULT_PATH, false);
    set("HOSTNAME", hostname, false);
    if config.tty {
        set("TERM", "xterm", false);
    }
    for variable in &image.env {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        set(name, value, true);
    }
    for variable in &config.env {
        set(&variable.name, &variable.value, true);
    }
    set("HOME", home, false);
    out
}

#[cfg(test)]
pub(super) mod tests {
    use minke_core::runtime::{ContainerSecurity, EnvVar, ImageId, LinuxResources};

    use super::*;

    pub(in crate::create) fn config() -> ContainerConfig {
        ContainerConfig {
            name: "c".into(),
            attempt: 0,
            image: ImageId("sha256:0".into()),
            image_name: "i".into(),
            command: vec![],
            args: vec![],
            working_dir: None,
            env: vec![],
            mounts: vec![],
            devices: vec![],
            labels: Default::default(),
            annotations: Default::default(),
            log_path: "c/0.log".into(),
            stdin: false,
            stdin_once: false,
            tty: false,
            resources: LinuxResources::default(),
            security: ContainerSecurity::default(),
            stop_signal: None,
        }
    }

    #[test]
    fn command_and_args_against_entrypoint_and_cmd() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (entrypoint, cmd, command, args, expected) in [
            ("e", "c", "", "", "e c"),
            ("e", "c", "k", "", "k"),
            ("e", "c", "", "a", "e a"),
            ("e", "c", "k", "a", "k a"),
            ("", "c", "", "", "c"),
            ("", "c", "", "a", "a"),
        ] {
            let image = ImageFacts { entrypoint: words(entrypoint), cmd: words(cmd), ..ImageFacts::default() };
            let config = ContainerConfig { command: words(command), args: words(args), ..config() };
            assert_eq!(arguments(&config, &image), Some(words(expected)));
        }
        assert_eq!(arguments(&config(), &ImageFacts::default()), None);
    }

    #[test]
    fn each_variable_once_and_the_manifest_wins() {
        let image = ImageFacts { env: vec!["PATH=/i".into(), "A=image".into(), "B=".into()], ..ImageFacts::default() };
        let env = vec![
            EnvVar { name: "A".into(), value: "x=y".into() },
            EnvVar { name: "HOSTNAME".into(), value: "mine".into() },
        ];
        let config = ContainerConfig { env, tty: true, ..config() };
        assert_eq!(
            environment(&config, &image, "pod", "/root"),
            ["PATH=/i", "HOSTNAME=mine", "TERM=xterm", "A=x=y", "B=", "HOME=/root"]
        );
    }
}
