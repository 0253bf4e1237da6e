//! Profile files (`Localhost`), in the format of Docker and of the OCI specification.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::policy::Arch;
use super::profile::{Action, ArgTest, Comparison, Profile, Rule, SeccompError};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    default_action: String,
    default_errno_ret: Option<u16>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    arch_map: Option<Vec<ArchEntry>>,
    #[serde(default)]
    flags: Option<Vec<String>>,
    #[serde(default)]
    listener_path: Option<String>,
    #[serde(default)]
    syscalls: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchEntry {
    architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    names: Vec<String>,
    /// The singular of old profiles.
    name: Option<String>,
    action: String,
    errno_ret: Option<u16>,
    #[serde(default)]
    args: Option<Vec<Arg>>,
    #[serde(default)]
    includes: Option<Filter>,
    #[serde(default)]
    excludes: Option<Filter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arg {
    index: u64,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(default)]
    caps: Option<Vec<String>>,
    #[serde(default)]
    arches: Option<Vec<String>>,
    #[serde(default)]
    min_kernel: Option<String>,
}

/// Understands a profile for a container with these capabilities, on this architecture and kernel release.
///
/// # Errors
/// Not JSON, or a word of it has no meaning here. Names of unknown system calls are no error.
pub(crate) fn parse(
    text: &[u8],
    path: &std::path::Path,
    capabilities: &BTreeSet<String>,
    arch: Arch,
    kernel: (u32, u32),
) -> Result<Profile, SeccompError> {
    let file: File =
        serde_json::from_slice(text).map_err(|source| SeccompError::Json { path: path.to_owned(), source })?;
    if file.listener_path.is_some_and(|p| !p.is_empty()) {
        return Err(SeccompError::Unsupported { what: "listenerPath".to_owned() });
    }
    let default = action(&file.default_action, file.default_errno_ret)?;
    let mapped = file.arch_map.iter().flatten().map(|a| &a.architecture);
    for word in file.architectures.iter().chain(mapped) {
        if !word.starts_with("SCMP_ARCH_") {
            return Err(SeccompError::Unknown { what: "architecture", word: word.clone() });
        }
    }
    let mut flags = 0;
    for word in file.flags.iter().flatten() {
        flags |= match word.as_str() {
            "SECCOMP_FILTER_FLAG_TSYNC" => 1,
            "SECCOMP_FILTER_FLAG_LOG" => 2,
            "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => 4,
            _ => return Err(SeccompError::Unknown { what: "flag", word: word.clone() }),
        };
    }
    let mut rules = Vec::new();
    for entry in file.syscalls.into_iter().flatten() {
        let holds = |filter: &Filter| applies(filter, capabilities, arch, kernel);
        let excluded = entry.excludes.as_ref().is_some_and(|f| any(f, capabilities, arch, kernel));
        if excluded || !entry.includes.as_ref().is_none_or(holds) {
            continue;
        }
        let action = action(&entry.action, entry.errno_ret)?;
        let names: Vec<String> = entry.names.into_iter().chain(entry.name).collect();
        let args = entry.args.unwrap_or_default().iter().map(arg).collect::<Result<Vec<_>, _>>()?;
        // Several conditions on one argument are alternatives, as in the reference implementation.
        let repeated = args.iter().enumerate().any(|(i, a)| args[..i].iter().any(|b| b.index == a.index));
        if repeated {
            rules.extend(args.into_iter().map(|a| Rule { names: names.clone(), action, args: vec![a] }));
        } else {
            rules.push(Rule { names, action, args });
        }
    }
    Ok(Profile { default, rules, flags })
}

fn action(word: &str, errno: Option<u16>) -> Result<Action, SeccompError> {
    Ok(match word {
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_ERRNO" => Action::Errno(errno.unwrap_or(1)),
        "SCMP_ACT_TRAP" => Action::Trap,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        "SCMP_ACT_TRACE" => Action::Trace(errno.unwrap_or(1)),
        "SCMP_ACT_NOTIFY" => return Err(SeccompError::Unsupported { what: "action SCMP_ACT_NOTIFY".to_owned() }),
        _ => return Err(SeccompError::Unknown { what: "action", word: word.to_owned() }),
    })
}

fn arg(arg: &Arg) -> Result<ArgTest, SeccompError> {
    let index = u8::try_from(arg.index).ok().filter(|i| *i < 6).ok_or(SeccompError::ArgIndex { index: arg.index })?;
    let (value, comparison) = match arg.op.as_str() {
        "SCMP_CMP_NE" => (arg.value, Comparison::Ne),
        "SCMP_CMP_LT" => (arg.value, Comparison::Lt),
        "SCMP_CMP_LE" => (arg.value, Comparison::Le),
        "SCMP_CMP_EQ" => (arg.value, Comparison::Eq),
        "SCMP_CMP_GE" => (arg.value, Comparison::Ge),
        "SCMP_CMP_GT" => (arg.value, Comparison::Gt),
        "SCMP_CMP_MASKED_EQ" => (arg.value_two, Comparison::MaskedEq { mask: arg.value }),
        _ => return Err(SeccompError::Unknown { what: "operator", word: arg.op.clone() }),
    };
    Ok(ArgTest { index, value, comparison })
}

/// All conditions of `includes` hold.
fn applies(filter: &Filter, capabilities: &BTreeSet<String>, arch: Arch, kernel: (u32, u32)) -> bool {
    filter.caps.iter().flatten().all(|c| capabilities.contains(c))
        && filter.arches.as_ref().is_none_or(|a| a.is_empty() || a.iter().any(|a| a == arch.go_name()))
        && filter.min_kernel.as_deref().is_none_or(|k| release(k).is_none_or(|k| kernel >= k))
}

/// Any condition of `excludes` holds.
fn any(filter: &Filter, capabilities: &BTreeSet<String>, arch: Arch, kernel: (u32, u32)) -> bool {
    filter.caps.iter().flatten().any(|c| capabilities.contains(c))
        || filter.arches.iter().flatten().any(|a| a == arch.go_name())
        || filter.min_kernel.as_deref().and_then(release).is_some_and(|k| kernel >= k)
}

/// The first two numbers of a kernel release.
fn release(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    Some((major.parse().ok()?, minor[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, capabilities: &[&str]) -> Result<Profile, SeccompError> {
        let capabilities = capabilities.iter().map(|c| (*c).to_owned()).collect();
        parse(text.as_bytes(), std::path::Path::new("p.json"), &capabilities, Arch::X86_64, (6, 1))
    }

    #[test]
    fn a_docker_profile_is_understood() {
        let profile = read(
            r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,
                "archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86"]}],
                "syscalls":[
                  {"names":["read","write"],"action":"SCMP_ACT_ALLOW"},
                  {"name":"clone","action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2114060288,"op":"SCMP_CMP_MASKED_EQ"}]},
                  {"names":["mount"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_SYS_ADMIN"]}},
                  {"names":["ptrace"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"4.8"}},
                  {"names":["future"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"99.0"}},
                  {"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38,"excludes":{"caps":["CAP_SYS_ADMIN"]}}]}"#,
            &["CAP_SYS_ADMIN"],
        )
        .unwrap();
        assert_eq!(profile.default, Action::Errno(38));
        let names: Vec<_> = profile.rules.iter().flat_map(|r| r.names.iter().map(String::as_str)).collect();
        assert_eq!(names, ["read", "write", "clone", "mount", "ptrace"]);
        assert_eq!(profile.rules[1].args[0].comparison, Comparison::MaskedEq { mask: 2_114_060_288 });
    }

    #[test]
    fn several_conditions_on_one_argument_are_alternatives() {
        let profile = read(
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["socket"],"action":"SCMP_ACT_ERRNO","args":[
                {"index":0,"value":40,"op":"SCMP_CMP_EQ"},{"index":0,"value":16,"op":"SCMP_CMP_EQ"}]}]}"#,
            &[],
        )
        .unwrap();
        assert_eq!(profile.rules.len(), 2);
    }

    #[test]
    fn what_has_no_meaning_is_refused_in_words() {
        for (text, words) in [
            ("{", "p.json is not valid"),
            ("{}", "p.json is not valid"),
            (r#"{"defaultAction":"SCMP_ACT_MAYBE"}"#, "action \"SCMP_ACT_MAYBE\""),
            (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "SCMP_ACT_NOTIFY is not supported"),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"/x"}"#, "listenerPath"),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["X"]}"#, "flag \"X\""),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO",
                    "args":[{"index":6,"value":0,"op":"SCMP_CMP_EQ"}]}]}"#,
                "no index 6",
            ),
        ] {
            let error = read(text, &[]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_understood(text in "\\PC{0,100}") {
            let _ = read(&text, &[]);
        }
    }
}
