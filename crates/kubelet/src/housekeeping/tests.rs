use super::*;

fn uid(s: &str) -> PodUid {
    PodUid::new(s).unwrap()
}

#[tokio::test]
async fn a_pod_that_dies_often_is_in_the_queue_once() {
    let deaths = PodSet::default();
    for _ in 0..100 {
        deaths.add(&uid("a"));
    }
    deaths.add(&uid("b"));
    assert_eq!([deaths.next().await, deaths.next().await], [uid("a"), uid("b")]);
    let more = tokio::time::timeout(Duration::ZERO, deaths.next()).await;
    assert!(more.is_err(), "nothing is left");
    deaths.add(&uid("a"));
    assert_eq!(deaths.next().await, uid("a"), "a dropped wait loses nothing");
}
