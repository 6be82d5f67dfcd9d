"""Tags: the folders that they name, refusals, and that nobody's is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.store import _places as places
from asyncsim.store import tags
from asyncsim.store._lease import hold
from tests.store.problems import write_label

# Two names would look the same, or turn around what follows them.
INVISIBLE = "\u200b\u200d\u202e\u2066\ufeff\u00a0\u00ad\u3164\u115f\u2800\ufe0f\U000e0041"


def folder(name: str, digest: str | None = None) -> Path:
    """A folder, with the results of a study if there is a digest."""
    place = Path(name)
    place.mkdir(parents=True)
    if digest is not None:
        write_label(place, {"digest": digest})
    return place


class TestAdd:
    def test_place_is_absolute_and_the_name_that_of_the_folder(self) -> None:
        tags.add(folder("runs/gem 40"))
        assert tags.place_of("gem 40") == Path("runs/gem 40").absolute()

    @pytest.mark.parametrize("name", ["my best run", "größe", "実験", "a.b,c=1", "-x"[1:], "tag;rm", "$HOME"])
    def test_any_word_is_a_name(self, name: str) -> None:
        tags.add(folder("a"), name)
        assert list(tags.every()) == [name]
        assert tags.place_of(name) == Path("a").absolute()

        assert tags.require_name("gro\u0308\u00dfe") == "gr\u00f6\u00dfe"  # composed and decomposed letters

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            *((name, "must") for name in ("", "  ", ".", "..", "a/b", "-v", "a\nb", "a\0b", "\ud800", "a" * 101)),
            *((f"ba{letter}se", r"must not hold '\\?.+'; got 'ba.*se'") for letter in INVISIBLE),
            ("a" * 100_000, r"must have at most 100 letters; got 100,000\. .{,30}$"),  # and is not repeated
        ],
    )
    def test_what_is_no_name(self, name: str, words: str) -> None:
        with pytest.raises(ValueError, match=f"^`NAME` of a tag {words}"):
            tags.add(folder("a"), name)
        with pytest.raises(ValueError, match="must be a folder or a file that exists; got 'no'"):
            tags.add("no")
        assert not tags.every()

    def test_an_existing_tag_is_refused_and_stays(self) -> None:
        tags.add(folder("a"), "base")
        with pytest.raises(ValueError, match=r"'base' exists already: it stands for '.*a'.*--move"):
            tags.add(folder("b"), "base")
        assert tags.place_of("base") == Path("a").absolute()
        tags.add("b", "base", move=True)
        assert tags.place_of("base") == Path("b").absolute()


@pytest.mark.quick
class TestFind:
    def test_an_unknown_tag_names_the_nearest(self) -> None:
        tags.add(folder("a"), "baseline")
        for call in (tags.get, tags.place_of, tags.remove, lambda name: tags.rename(name, "x")):
            with pytest.raises(ValueError, match=r"There is no tag 'basline'\. Did you mean 'baseline'\?"):
                call("basline")

    def test_a_path_wins_over_a_tag_and_says_so(self) -> None:
        tags.add(folder("elsewhere"), "base")
        assert places.find("base") == Path("elsewhere").absolute()
        folder("base")
        with pytest.warns(UserWarning, match="the tag of this name, '.*elsewhere', is not meant"):
            assert places.find("base") == Path("base")
        assert places.find("./base") == Path("./base")
        with pytest.raises(ValueError, match=r"'runs/base' does not exist"):
            places.find("runs/base")

    def test_a_run_that_is_near_is_named(self) -> None:
        folder("runs/gem40", "d")
        with pytest.raises(ValueError, match=r"'gem4' does not exist\. Did you mean 'runs/gem40'\?"):
            places.find_run("gem4")
        with pytest.raises(ValueError, match=r"'runs' holds no run\. Did you mean 'runs/gem40'\?"):
            places.find_run("runs")
        assert places.find_run("runs/gem40/scenario.json") == Path("runs/gem40")
        (folder("sweep/sweeps").parent / "store.json").write_text("{}")
        with pytest.raises(ValueError, match=r"sweep is the store of a sweep\. See: asyncsim sweep table sweep"):
            places.find_run("sweep")


class TestMoved:
    def test_a_tag_of_a_missing_folder_is_dangling(self) -> None:
        tags.add(folder("a", "d"), "base")
        Path("a").rename("b")
        (Path("b") / "scenario.json").unlink()
        assert tags.get("base").state == tags.DANGLING
        with pytest.raises(ValueError, match=r"no longer there\. Forget it: asyncsim untag base"):
            tags.place_of("base")

    @pytest.mark.parametrize("digest", ["d", None])
    def test_a_renamed_folder_is_found(self, digest: str | None) -> None:
        tags.add(folder("runs/a", digest), "base")
        folder("runs/other", "e")
        Path("runs/a").rename("runs/b")
        with pytest.raises(ValueError, match=r"moved to '.*runs/b': asyncsim tag .*runs/b base --move"):
            places.find("base")

    def test_another_study_at_the_same_place(self) -> None:
        tags.add(folder("a", "d"), "base")
        write_label("a", {"digest": "e"})
        assert tags.get("base").state == tags.CHANGED
        with pytest.warns(UserWarning, match="holds another study than when it was tagged 'base'"):
            assert places.find("base") == Path("a").absolute()


class TestFile:
    def test_the_environment_names_the_file_of_tags(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for given_, expected in (("t.toml", "t.toml"), ("t", "t/tags.json"), (".", "tags.json")):
            monkeypatch.setenv("ASYNCSIM_TAGS", str(tmp_path / given_))
            assert tags.file() == tmp_path / expected
        monkeypatch.delenv("ASYNCSIM_TAGS")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
        assert tags.file().name == "tags.json"
        assert "asyncsim" in tags.file().parts

    @pytest.mark.parametrize(
        "content",
        [
            '{"format": 99, "tags": {}}',
            *("", "{", "[]", "{}", '{"tags": 3}', '{"tags": {"a": {}}}', '{"tags": {"a": 1}}', "[" * 100_000),
            '{"tags": {"a": {"place": "b", "inode": [3]}}}',
            '{"tags": {"a": {"place": "b", "inode": ["x", "y"]}}}',
        ],
    )
    def test_a_damaged_file_is_refused_and_stays(self, own_tags: Path, content: str) -> None:
        own_tags.parent.mkdir()
        own_tags.write_text(content)
        for call in (tags.every, lambda: tags.add(folder("a"), "a")):
            with pytest.raises(ValueError, match=r"is damaged\. Repair it, or remove it|written by a newer asyncsim"):
                call()
        assert own_tags.read_text() == content

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_place_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folder("closed").chmod(0o500)
        monkeypatch.setenv("ASYNCSIM_TAGS", "closed/tags.json")
        with pytest.raises(OSError, match=r"cannot be written.*ASYNCSIM_TAGS"):
            tags.add(folder("a"))

    def test_one_change_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tags, "TIMEOUT", 0.1)
        tags.add(folder("a"))
        with (
            hold(tags.file().with_name(f".{tags.file().name}.lock")),
            pytest.raises(ValueError, match="locked by another"),
        ):
            tags.add("a", "b")
        assert list(tags.every()) == ["a"]

    def test_processes_at_once(self) -> None:
        """Nobody's tag is lost."""
        folder("a")
        line = "import sys; from asyncsim.store import tags; [tags.add('a', f'{sys.argv[1]}_{i}') for i in range(20)]"
        started = [subprocess.Popen([sys.executable, "-c", line, str(number)]) for number in range(2)]
        assert [process.wait() for process in started] == [0] * 2
        assert len(tags.every()) == 40


WORDS = st.text("aZ09 .,=-_;$'\"\n\0éü\u0308実\u200b", min_size=1, max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "rename"]), WORDS, WORDS), max_size=12))
def test_they_are_a_mapping(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]) -> None:
    """Whatever is done, the tags are what a dictionary would hold after the steps that were not refused."""
    place = tmp_path_factory.mktemp("any")
    expected: dict[str, Path] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNCSIM_TAGS", str(place / "tags.json"))
        for what, one, other in steps:
            try:
                name = tags.require_name(one)
                if what == "add":
                    tags.add(place, one)
                    assert name not in expected
                    expected[name] = place
                elif what == "remove":
                    tags.remove(one)
                    del expected[name]
                else:
                    tags.rename(one, other)
                    new = tags.require_name(other)
                    assert new not in expected
                    expected[new] = expected.pop(name)
            except ValueError:
                continue
        assert {name: tag.place for name, tag in tags.every().items()} == expected
