//! Limits, environment and mounts as the program sees them, and what it uses.

use std::time::Duration;

use minke_core::runtime::{EnvVar, LinuxResources, Mount, MountPropagation};

use crate::stage::{Broken, Stage};
use crate::subject::Program;

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

pub(crate) async fn out_of_memory(s: &Stage) -> Result<(), Broken> {
    let pod = s.sandbox().await?;
    // The first process itself is the one that is too large.
    let program = Program::Shell("exec tail /dev/zero");
    let mut config = s.container_config("app", program);
    config.resources.memory_limit_bytes = Some(16 << 20);
    let id = s.start_config(&pod, &config, program).await?;
    s.say(s.ended(&id).await?);
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
