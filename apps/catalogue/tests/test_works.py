"""A scan makes works of changed records, or all works again with the same bytes. An interrupted scan resumes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue, interrupt_at
from stratalog import Records
from stratalog_catalogue import queries, transformers, workers
from stratalog_catalogue.model import Agent, Relation, Work, decode_work
from stratalog_catalogue.names import TITLES
from stratalog_catalogue.queries import differences, read_work, search, show_versions
from stratalog_catalogue.reconciliation import ReconciliationCounts
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.summary import Row, read_stats, read_titles
from stratalog_catalogue.transformers import Given, Transformer
from stratalog_catalogue.workers import reconcile

RFC = b"""<rfc-entry xmlns="https://www.rfc-editor.org/rfc-index"><doc-id>RFC0001</doc-id><title>Host Software</title>
<author><name>S. Crocker</name></author><date><month>April</month><year>1969</year></date>
<obsoletes><doc-id>RFC0000</doc-id></obsoletes></rfc-entry>"""


def works(catalogue: Catalogue) -> dict[str, tuple[int, bytes]]:
    ids = (line.id for line in catalogue.records.list(prefix="works/") if line)
    live = [id for id in ids if not catalogue.records.stat(id).deleted]
    return {id: (catalogue.records.stat(id).version, catalogue.records.get(id).body) for id in live}


def filled(catalogue: Catalogue, count: int = 20) -> Catalogue:
    catalogue.add()
    catalogue.write_packages({f"p{n:03d}": "1" for n in range(count)})
    catalogue.poll()
    return catalogue


def test_a_debian_package_becomes_a_work(catalogue: Catalogue) -> None:
    filled(catalogue, 1).scan()
    work = read_work(catalogue.records, "debian", "p000/amd64")
    assert (work.kind, work.title, work.size) == ("package", "p000: the p000 program", 1234)
    assert work.creators == (Agent("Jo Doe", "maintainer"),)
    targets = ("libc6", "default-mta", "mail-transport-agent")
    assert work.relations == tuple(Relation("depends", target) for target in targets)
    assert work.description == "It does one thing.\n\nAnd does it well."


def test_an_entry_of_the_rfc_index_becomes_a_work() -> None:
    work = transformers.rfc_entry(Given("rfc", "RFC0001", "xml", RFC, len(RFC)))
    assert (work.title, work.dates[0].value, work.creators) == (
        "Host Software",
        "1969 April",
        (Agent("S. Crocker", "author"),),
    )
    assert work.relations == (Relation("obsoletes", "RFC0000"),)


def test_three_formats_become_one_model_in_one_scan(catalogue: Catalogue) -> None:
    filled(catalogue, 2)
    catalogue.add("films", format="json", transformer="film", id="Title", complete=False)
    catalogue.write(b'[{"Title": "Alien", "Director": "Ridley Scott"}]', source="films", name="films.json")
    catalogue.add("rfc", format="xml", transformer="rfc-index", records="rfc-entry", id="doc-id", complete=False)
    catalogue.write(b"<rfc-index>" + RFC + b"</rfc-index>", source="rfc", name="index.xml")
    catalogue.poll()
    assert catalogue.scan().made == 4
    assert {(decode_work(body).source, decode_work(body).kind) for _, body in works(catalogue).values()} == {
        ("debian", "package"),
        ("films", "film"),
        ("rfc", "standard"),
    }


def test_a_scan_makes_works_only_of_changed_records(catalogue: Catalogue) -> None:
    filled(catalogue).scan()
    assert (catalogue.scan().made, catalogue.scan().same) == (0, 20)
    catalogue.write_packages({f"p{n:03d}": "2" if n == 7 else "1" for n in range(20)}, day=2)
    catalogue.poll()
    assert catalogue.scan().made == 1


def test_a_scan_of_all_records_makes_identical_works(catalogue: Catalogue) -> None:
    filled(catalogue).scan()
    before = works(catalogue)
    again = catalogue.scan(everything=True)
    assert (again.made, again.same) == (0, 20)
    assert works(catalogue) == before


def test_several_processes_make_the_same_works_as_one(tmp_path: Path) -> None:
    alone = filled(Catalogue(stratalog.open("memory:"), tmp_path), 1200)
    alone.scan()
    two = Catalogue(stratalog.open(tmp_path / "store"), tmp_path)
    two.add()
    two.poll()
    done = reconcile(two.store, "acme", everything=True, url=str(tmp_path / "store"), processes=2)
    assert (done.looked_at, done.made) == (1200, 1200)
    assert works(two) == works(alone)
    two.store.close()


def test_a_new_version_of_a_transformer_makes_its_works_anew(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(catalogue).scan()

    def shout(given: Given) -> Work:
        made = transformers.debian_package(given)
        return msgspec.structs.replace(made, title=made.title.upper())

    changed = {**transformers.TRANSFORMERS, "debian-package": Transformer("debian-package/3", shout)}
    monkeypatch.setattr(transformers, "TRANSFORMERS", changed)
    assert catalogue.scan().made == 20
    assert read_work(catalogue.records, "debian", "p000/amd64").title == "P000: THE P000 PROGRAM"


def test_an_interrupted_scan_resumes_where_it_stopped(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_catalogue.workers.PIECE_RECORDS", 2)
    monkeypatch.setattr("stratalog_catalogue.workers.PIECES_PER_NOTE", 1)
    filled(catalogue).scan()
    with pytest.raises(KeyboardInterrupt):
        reconcile(catalogue.store, "acme", everything=True, progress=interrupt_at(6))
    assert reconcile(catalogue.store, "acme", everything=True).looked_at == 10
    assert catalogue.scan(everything=True).looked_at == 20
    assert read_stats(catalogue.records).sources[0].works == 20


def test_the_work_of_a_record_is_deleted_and_restored_with_the_record(catalogue: Catalogue) -> None:
    filled(catalogue, 2).scan()
    catalogue.write_packages({"p000": "1"}, day=2)
    catalogue.poll()
    assert catalogue.scan().deleted == 1
    assert list(works(catalogue)) == ["works/debian/p000/amd64"]
    assert catalogue.scan().deleted == 0
    catalogue.write_packages({"p000": "1", "p001": "1"}, day=3)
    catalogue.poll()
    assert catalogue.scan().made == 1
    assert len(works(catalogue)) == 2


def test_a_record_that_cannot_become_a_work_makes_a_single_dead_letter(catalogue: Catalogue) -> None:
    catalogue.add("films", format="json", transformer="rfc-index", id="id", complete=False)
    catalogue.write(b'[{"id": 1}, {"id": 2}]', source="films", name="films.json")
    catalogue.poll()
    assert [catalogue.scan().failed for _ in range(3)] == [2, 2, 2]
    assert [letter.failures for letter in catalogue.records.dead_letters()] == [1, 1]
    assert read_stats(catalogue.records).dead_letters == {"films": 2}
    catalogue.add("films", format="json", transformer="plain", id="id", complete=False)
    assert all(result.resolved for result in redrive(catalogue.store, "acme", catalogue.connect))
    assert list(catalogue.records.dead_letters()) == []


@pytest.mark.parametrize("is_scan", [True, False], ids=["scan", "redrive"])
def test_the_letter_of_a_work_is_resolved_after_its_record_is_deleted(catalogue: Catalogue, is_scan: bool) -> None:
    catalogue.add("films", format="json", transformer="rfc-index", id="id", complete=False)
    catalogue.write(b'[{"id": 1}]', source="films", name="films.json")
    catalogue.poll()
    assert catalogue.scan().failed == 1
    catalogue.records.delete("source/films/1")
    if is_scan:
        assert catalogue.scan().failed == 0
    else:
        assert [result.resolved for result in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert list(catalogue.records.dead_letters()) == []


def test_a_work_that_fails_again_in_a_redrive_has_the_new_reason(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add("films", format="json", transformer="plain", id="id", complete=False)
    catalogue.write(b'[{"id": 1}]', source="films", name="films.json")
    catalogue.poll()
    reason = ""

    def fail(given: Given) -> Work:
        raise ValueError(reason)

    monkeypatch.setitem(transformers.TRANSFORMERS, "plain", Transformer("plain/1", fail))
    reason = "an old reason"
    assert catalogue.scan().failed == 1
    reason = "a new reason"
    (result,) = redrive(catalogue.store, "acme", catalogue.connect)
    assert (result.resolved, result.reason) == (False, "ValueError: a new reason")


def test_a_letter_that_another_scan_resolves_first_stops_no_scan(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add("films", format="json", transformer="rfc-index", id="id", complete=False)
    catalogue.write(b'[{"id": 1}, {"id": 2}]', source="films", name="films.json")
    catalogue.poll()
    assert catalogue.scan().failed == 2
    catalogue.add("films", format="json", transformer="plain", id="id", complete=False)
    real = Records.resolve_dead_letter

    def overtaken(records: Records, id: str) -> None:
        real(records, id)
        real(records, id)

    monkeypatch.setattr(Records, "resolve_dead_letter", overtaken)
    assert catalogue.scan().made == 2
    assert list(catalogue.records.dead_letters()) == []


def test_stats_count_by_source_format_and_kind(catalogue: Catalogue) -> None:
    filled(catalogue, 3).scan()
    catalogue.write_packages({"p000": "1", "p001": "2", "p002": "1"}, day=2)
    catalogue.poll()
    catalogue.scan()
    size = sum(catalogue.records.stat(f"source/debian/p00{n}/amd64").size for n in range(3))
    (summary,) = read_stats(catalogue.records).sources
    assert summary.rows == (Row("rfc822", "package", 3, 4, size),)


def test_search_finds_works_by_title_words_and_by_id_prefixes(catalogue: Catalogue) -> None:
    filled(catalogue).scan()
    assert [hit.id for hit in search(catalogue.records, "P007 program")] == ["p007/amd64"]
    assert [hit.id for hit in search(catalogue.records, begins="p01", limit=3)] == [f"p01{n}/amd64" for n in range(3)]
    assert search(catalogue.records, "program", source="debian", begins="p002")[0].title == "p002: the p002 program"
    assert search(catalogue.records, "nothing") == []


def test_a_search_by_words_finds_works_whose_ids_have_tabs_and_line_breaks(catalogue: Catalogue) -> None:
    ids = ["a\tb", "a\nb", "a\n\nb\tc", "a\tb\nc", 'a\t"b"\n"c', '"a"', "z"]
    catalogue.add("books", format="json", transformer="plain", id="id")
    catalogue.write(msgspec.json.encode([{"id": id, "title": "a book"} for id in ids]), source="books")
    catalogue.poll("books")
    catalogue.scan()
    hits = search(catalogue.records, "book", source="books")
    assert sorted(hit.id for hit in hits) == sorted(ids)


def test_titles_that_an_earlier_build_stored_are_read(catalogue: Catalogue) -> None:
    works = [("works/books/a\tb", "one"), ("works/books/a\n\nb\tc", ""), ("works/books/z", '"a" book')]
    catalogue.records.put(f"{TITLES}books", "".join(f"{work}\t{title}\n" for work, title in works).encode())
    assert [*read_titles(catalogue.records, "books")] == works


def test_both_searches_give_a_work_with_the_same_title_and_kind(catalogue: Catalogue) -> None:
    filled(catalogue, 2).scan()
    hit = queries.Hit("debian", "p001/amd64", "p001: the p001 program", "package")
    assert search(catalogue.records, "p001") == search(catalogue.records, begins="p001") == [hit]
    catalogue.records.delete("works/debian/p001/amd64")
    assert search(catalogue.records, "p001") == search(catalogue.records, begins="p001") == []


def test_no_more_batches_are_in_flight_than_the_limit(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    in_flight = [0]

    class Batch(Future[ReconciliationCounts]):
        def result(self, timeout: float | None = None) -> ReconciliationCounts:
            in_flight.append(in_flight[-1] - 1)
            return ReconciliationCounts(titles=[])

    class Pool(Executor):
        def submit(self, *arguments: Any, **named: Any) -> Any:
            in_flight.append(in_flight[-1] + 1)
            return Batch()

    monkeypatch.setattr(workers, "PIECE_RECORDS", 2)
    monkeypatch.setattr(workers, "_pool", lambda url, organisation, processes: Pool())
    filled(catalogue, 20)
    reconcile(catalogue.store, "acme", url="elsewhere", processes=2)
    assert (max(in_flight), in_flight[-1]) == (2 * workers.PIECES_AHEAD, 0)


def test_versions_are_listed_and_two_versions_are_compared_by_line(catalogue: Catalogue) -> None:
    filled(catalogue, 1)
    catalogue.write_packages({"p000": "2"}, day=2)
    catalogue.poll()
    assert [version.version for version in show_versions(catalogue.records, "debian", "p000/amd64")] == [2, 1]
    lines = differences(catalogue.records, "debian", "p000/amd64", 1, 2).lines
    assert [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        "-Version: 1",
        "+Version: 2",
    ]


@pytest.mark.parametrize("records", ["", "r"], ids=["document", "element"])
@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "utf-8"])
def test_versions_of_xml_are_compared_as_texts_of_their_encoding(
    catalogue: Catalogue, records: str, encoding: str
) -> None:
    catalogue.add("books", format="xml", transformer="plain", id="id", complete=False, records=records)
    for day, title in enumerate(["Café", "Crème"], 1):
        text = f'<?xml version="1.0" encoding="{encoding}"?>\n<r><id>1</id>\n<title>{title}</title>\n</r>'
        catalogue.write(text.encode(encoding), source="books", name="books.xml", day=day)
        catalogue.poll()
    lines = differences(catalogue.records, "books", "1", 1, 2).lines
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-<title>Café</title>", "+<title>Crème</title>"]


def test_versions_that_are_too_large_are_not_compared(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue.add("books", format="json", transformer="plain", id="id", complete=False)
    for day, body in enumerate([b'[{"id":1,"title":"one"}]', b'[{"id":1,"title":"two"}]'], 1):
        catalogue.write(body, source="books", name="books.json", day=day)
        catalogue.poll()
    monkeypatch.setattr(queries, "CATALOGUE_DIFF_BYTES_MAX", 10)
    with pytest.raises(stratalog.LimitExceeded) as refused:
        differences(catalogue.records, "books", "1", 1, 2)
    assert refused.value.details["limit"] == 10


def test_true_and_1_differ(catalogue: Catalogue) -> None:
    catalogue.add("books", format="json", transformer="plain", id="id", complete=False)
    for day, body in enumerate([b'[{"id":"x","a":true,"b":[0]}]', b'[{"id":"x","a":1,"b":[false]}]'], 1):
        catalogue.write(body, source="books", name="books.json", day=day)
        catalogue.poll()
    changes = msgspec.to_builtins(differences(catalogue.records, "books", "x", 1, 2).changes)
    assert msgspec.json.encode(changes) == (
        b'[{"path":"a","before":true,"after":1},{"path":"b.0","before":0,"after":false}]'
    )


def test_json_versions_are_compared_by_value(catalogue: Catalogue) -> None:
    catalogue.add("books", format="json", transformer="plain", id="id", complete=False)
    for day, body in enumerate([b'[{"id":1,"a":{"b":[1,2]},"c":1}]', b'[{"id":1,"a":{"b":[1,3,4]},"d":null}]'], 1):
        catalogue.write(body, source="books", name="books.json", day=day)
        catalogue.poll()
    changes = msgspec.to_builtins(differences(catalogue.records, "books", "1", 1, 2).changes)
    assert list(changes) == [
        {"path": "a.b.1", "before": 2, "after": 3},
        {"path": "a.b.2", "after": 4},
        {"path": "c", "before": 1},
        {"path": "d", "after": None},
    ]


@pytest.mark.parametrize("count", [10, 300])
def test_stats_read_the_same_number_of_items_for_few_and_for_many_records(tmp_path: Path, count: int) -> None:
    catalogue = filled(Catalogue(stratalog.open("memory:"), tmp_path), count)
    catalogue.scan()
    index = catalogue.store.environment.index
    reads: list[str] = []
    query, get = index.query, index.get

    def counted_get(partition: str, sort: str, **options: Any) -> Any:
        reads.append(sort)
        return get(partition, sort, **options)

    def counted(partition: str, **bounds: Any) -> Iterator[Any]:
        for item in query(partition, **bounds):
            reads.append(item.sort)
            yield item

    index.query, index.get = counted, counted_get  # type: ignore[method-assign]
    assert read_stats(catalogue.records).sources[0].works == count
    assert len(reads) == 5


def test_a_dependency_without_a_space_before_its_version_is_named_without_the_version() -> None:
    body = b"Package: a\nDepends: libc6(>=2.36), b[amd64] | c<!nocheck>, d:any (= 1)\n"
    work = transformers.debian_package(Given("debian", "a", "rfc822", body, len(body)))
    assert [relation.target for relation in work.relations] == ["libc6", "b", "c", "d"]


@pytest.mark.parametrize("name", ["debian-package", "debian-source"])
def test_a_scan_repairs_the_relations_that_the_first_version_of_a_debian_transformer_made(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    catalogue.add(transformer=name, id="Package")
    catalogue.write("Package: a\nDepends: libc6(>=2.36)\nBuild-Depends: libc6(>=2.36)\n")
    catalogue.poll()
    now = transformers.TRANSFORMERS[name]

    def first(given: Given) -> Work:
        made = now.make(given)
        wrong = tuple(msgspec.structs.replace(relation, target="libc6(>=2.36)") for relation in made.relations)
        return msgspec.structs.replace(made, relations=wrong)

    with monkeypatch.context() as before:
        old = {**transformers.TRANSFORMERS, name: Transformer(f"{name}/1", first)}
        before.setattr(transformers, "TRANSFORMERS", old)
        assert catalogue.scan().made == 1
    assert catalogue.scan().made == 1
    assert [relation.target for relation in read_work(catalogue.records, "debian", "a").relations] == ["libc6"]
