"""Detection of workers whose episodes differ from the others."""

from rollouts.episodes.rules.episode_workers import WorkerEpisodes, deviations


def worker(number: int, *, episodes: int = 20, **means: float) -> WorkerEpisodes:
    usual = {"return_mean": 100.0 + number, "length_mean": 50.0, "aborted_share": 0.0}
    return WorkerEpisodes(worker=number, episodes=episodes, **(usual | means))


def test_similar_workers_are_left_out() -> None:
    assert deviations([worker(number) for number in range(8)]) == {}


def test_a_mean_far_from_the_median_is_reported_with_its_side() -> None:
    outliers = deviations([*(worker(number) for number in range(7)), worker(7, return_mean=20.0)])

    assert list(outliers) == [7]
    assert [(deviation.measure, deviation.score < 0) for deviation in outliers[7]] == [
        ("return_mean", True)
    ]


def test_a_worker_that_differs_from_equal_others_is_reported() -> None:
    outliers = deviations([*(worker(n) for n in range(7)), worker(7, aborted_share=0.4)])

    assert [deviation.measure for deviation in outliers[7]] == ["aborted_share"]
    assert outliers[7][0].median == 0.0


def test_few_workers_or_episodes_have_no_outliers() -> None:
    far = worker(3, return_mean=-900.0)
    assert deviations([worker(0), worker(1), far]) == {}

    few = worker(3, return_mean=-900.0, episodes=4)
    assert deviations([*(worker(number) for number in range(3)), worker(4), few]) == {}
