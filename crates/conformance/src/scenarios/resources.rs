//! Limits, environment and mounts as the program sees them, and what it uses.

use std::path::PathBuf;
use std::time::Duration;

use minke_core::cgroup::Hierarchies;
use minke_core::runtime::{EnvVar, LinuxResources, Mount, MountPropagation};

use crate::stage::{Broken, Stage};
use crate::subject::{Kind, Program};
use crate::words;

pub(crate) async fn limits(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    // The files of cgroup v1, and those of v2 in the same form.
    let program = Program::Shell(
        "cd /sys/fs/cgroup; if [ -e cgroup.controllers ]; then cat memory.max; cut -d' ' -f1 cpu.max; else \
         cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us; fi; cat /proc/self/oom_score_adj",
    );
    let mut config = s.container_config("app", program);
    config.resources = LinuxResources {
        cpu_period_us: Some(100_000),
        cpu_quota_us: Some(20_000),
        memory_limit_bytes: Some(64 << 20),
        oom_score_adj: Some(900),
        ..LinuxResources::default()
    };
    let id = s.start_config(&pod, &config, program).await?;
    s.say(s.ended(&id).await?);
    s.until("three lines", async || Ok((s.log(&config).lines().count() >= 3).then_some(()))).await?;
    s.say(s.log(&config).trim_end());
    Ok(())
}

/// Reads the limits as they are, in the container.
const LIMITS: &str = "cd /sys/fs/cgroup; if [ -e cgroup.controllers ]; then cat memory.max; cut -d' ' -f1 cpu.max; else \
                      cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us; fi";

pub(crate) async fn limits_change(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    // It holds some 20 MiB for good.
    let program = Program::Shell(
        "trap 'exit 0' TERM; dd if=/dev/zero of=/dev/shm/held bs=1M count=20 2>/dev/null; echo up; while :; do sleep 0.1; done",
    );
    let mut config = s.container_config("app", program);
    config.resources = LinuxResources {
        cpu_period_us: Some(100_000),
        cpu_quota_us: Some(20_000),
        memory_limit_bytes: Some(64 << 20),
        ..LinuxResources::default()
    };
    let id = s.start_config(&pod, &config, program).await?;
    let shown = async || {
        let command = ["/bin/sh", "-c", LIMITS].map(str::to_owned);
        let output = s.runtime().exec_sync(&id, &command, None).await?;
        Ok::<_, Broken>(String::from_utf8_lossy(&output.stdout).trim_end().replace('\n', "\\n"))
    };
    s.say(format!("before: {}", shown().await?));
    let memory = |mib: i64| LinuxResources { memory_limit_bytes: Some(mib << 20), ..LinuxResources::default() };
    let update = async |limits: LinuxResources| words::outcome(&s.runtime().update_resources(&id, &limits).await);
    s.say(format!("more memory: {}", update(memory(128)).await));
    s.say(shown().await?);
    let less = LinuxResources { cpu_period_us: Some(100_000), cpu_quota_us: Some(10_000), ..memory(48) };
    s.say(format!("less of both: {}", update(less).await));
    s.say(shown().await?);
    s.say(format!("less memory than is used: {}", update(memory(8)).await));
    s.say(shown().await?);
    s.say(format!("it is still {}", s.state(&id).await?));
    s.runtime().stop_container(&id, Duration::from_secs(10)).await?;
    s.say(format!("after its end: {}", update(memory(64)).await));
    s.runtime().remove_container(&id).await?;
    s.say(format!("of none: {}", update(memory(64)).await));
    Ok(())
}

pub(crate) async fn limits_of_the_pod(s: &Stage) -> Result<(), Broken> {
    let mut config = s.sandbox_config();
    config.resources = LinuxResources {
        cpu_period_us: Some(100_000),
        cpu_quota_us: Some(30_000),
        cpu_shares: Some(512),
        memory_limit_bytes: Some(96 << 20),
        pids_limit: Some(200),
        ..LinuxResources::default()
    };
    std::fs::create_dir_all(&config.log_directory)?;
    let pod = s.runtime().run_sandbox(&config).await?;
    let group = PodGroup::of(&config.cgroup_parent)?;
    let before = group.limits();
    s.say(&before);
    let mut same = true;
    for name in ["one", "two"] {
        let id = s.start(&pod, name, Program::Polite(0)).await?;
        same &= group.limits() == before;
        s.runtime().stop_container(&id, Duration::ZERO).await?;
        same &= group.limits() == before;
    }
    s.say(format!("with a container, after its end and with the next: {}", if same { "the same" } else { "changed" }));
    s.runtime().stop_sandbox(&pod).await?;
    s.runtime().remove_sandbox(&pod).await?;
    let left = group.directories().into_iter().filter(|dir| dir.exists()).count();
    s.say(format!("removed: {}", if left == 0 { "nothing is left".to_owned() } else { format!("{left} directories") }));
    Ok(())
}

/// A Pod's cgroup as the machine has it.
struct PodGroup {
    hierarchies: Hierarchies,
    path: PathBuf,
}

impl PodGroup {
    fn of(cgroup_parent: &str) -> Result<Self, Broken> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let hierarchies = Hierarchies::parse(&mounts).ok_or_else(|| Broken("no cgroups are mounted".to_owned()))?;
        Ok(Self { hierarchies, path: cgroup_parent.trim_start_matches('/').into() })
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.hierarchies.mounts().iter().map(|mount| mount.join(&self.path)).collect()
    }

    fn limits(&self) -> String {
        let read = |controller: &str, file: &str| {
            let directory = self.hierarchies.dir(controller, &self.path).unwrap_or_default();
            let text = std::fs::read_to_string(directory.join(file)).unwrap_or_else(|error| error.to_string());
            text.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let [memory, processor, weight] = match self.hierarchies {
            Hierarchies::V1 { .. } => {
                [read("memory", "memory.limit_in_bytes"), read("cpu", "cpu.cfs_quota_us"), read("cpu", "cpu.shares")]
            }
            Hierarchies::V2 { .. } => [
                read("memory", "memory.max"),
                read("cpu", "cpu.max"),
                // 512 and its neighbours have one weight.
                read("cpu", "cpu.weight").replace("20", "512"),
            ],
        };
        let processes = read("pids", "pids.max");
        format!("memory: {memory}, processor: {processor}, weight: {weight}, processes: {processes}")
    }
}

/// So often in a row no notice is missed.
const TRIES: u32 = 6;

pub(crate) async fn out_of_memory(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    // The first process itself is the one that is too large.
    let program = Program::Shell("exec tail /dev/zero");
    let mut config = s.container_config("app", program);
    config.resources.memory_limit_bytes = Some(16 << 20);
    let mut told = String::new();
    for attempt in 0..TRIES {
        config.attempt = attempt;
        let id = s.start_config(&pod, &config, program).await?;
        told = s.ended(&id).await?;
        // containerd's shims sometimes miss the kernel's notice of a program that is killed as soon as it has begun.
        if told.contains("OOMKilled") || s.subject.kind == Kind::Embedded {
            break;
        }
    }
    s.say(told);
    Ok(())
}

pub(crate) async fn environment_and_mounts(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let program = Program::Shell(
        "echo $WHO; pwd; cat /given/file; echo more > /given/new && echo written; (echo x > /fixed/file) 2>/dev/null || echo read-only",
    );
    let mut config = s.container_config("app", program);
    config.env = vec![EnvVar { name: "WHO".to_owned(), value: "a b=c".to_owned() }];
    config.working_dir = Some("/made/for/me".into());
    for (name, read_only) in [("given", false), ("fixed", true)] {
        let host_path = s.directory().join(name);
        std::fs::create_dir_all(&host_path)?;
        std::fs::write(host_path.join("file"), "from the machine\n")?;
        config.mounts.push(Mount {
            host_path,
            container_path: format!("/{name}").into(),
            read_only,
            recursive_read_only: false,
            propagation: MountPropagation::Private,
        });
    }
    let id = s.start_config(&pod, &config, program).await?;
    s.say(s.ended(&id).await?);
    s.until("five lines", async || Ok((s.log(&config).lines().count() >= 5).then_some(()))).await?;
    s.say(s.log(&config).trim_end());
    s.say(format!("on the machine: {:?}", std::fs::read_to_string(s.directory().join("given/new"))?));
    Ok(())
}

pub(crate) async fn use_is_counted(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    let id = s.start(&pod, "app", Program::Polite(0)).await?;
    let measured = s.subject.kind.runs_programs();
    // Statistics may be collected a moment later.
    let used = s
        .until("the container's use", async || {
            let pods = s.runtime().pod_usage(&s.own()).await?;
            let pod = pods.into_iter().find(|p| p.containers.iter().any(|c| c.cgroup.is_some()));
            Ok(pod.filter(|p| !measured || p.containers.iter().any(|c| c.writable_bytes.is_some())))
        })
        .await?;
    s.say(format!("the Pod's: {}", used.pod == *s.pod() && used.sandbox == pod));
    let names: Vec<&str> = used.containers.iter().map(|c| c.name.as_str()).collect();
    s.say(format!("containers: {names:?}"));
    let own = used.containers.iter().find(|c| c.id == id).and_then(|c| c.cgroup).unwrap_or_default();
    let whole = used.cgroup.unwrap_or_default();
    let sane = own.memory_working_set_bytes > 0 && own.memory_working_set_bytes <= own.memory_usage_bytes;
    s.say(format!("memory: {}, processes: {}", sane || !measured, own.pids > 0 || !measured));
    s.say(format!("the whole is no less: {}", whole.memory_usage_bytes >= own.memory_usage_bytes));
    s.runtime().stop_container(&id, Duration::ZERO).await?;
    let after = s.runtime().pod_usage(&s.own()).await?;
    let running = after.iter().flat_map(|p| &p.containers).filter(|c| c.cgroup.is_some()).count();
    s.say(format!("after its end: {running}"));
    Ok(())
}
