"""How a mail was sent: each word says one fact, and not which mail it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.mail import limits
from consumers.mail.document import mail_document
from consumers.mail.sent import READ, address_of, sent_words

NEW = "from a.org by mx.b.org; Tue, 24 Nov 2026 10:00:00 +0000"
NAMES = (
    *("from", "to", "date", "message-id", "reply-to", "return-path", "sender", "received"),
    *("content-type", "x-mailer", "authentication-results", "received-spf", "precedence"),
)


def said(headers: dict[str, list[str]]) -> str:
    """The words of headers, with the mailboxes that are in them."""
    people = (address_of((headers.get(name) or [""])[0]) for name in ("from", "reply-to"))
    return sent_words(headers, *people)


def words(**headers: str | list[str]) -> set[str]:
    """Of a mail from jo@a.org."""
    given = {"from": "jo@a.org"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return set(said({n: v if isinstance(v, list) else [v] for n, v in given.items()}).split())


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"reply_to": "jo@a.org"}, "reply_to_same"),
        ({"reply_to": "Jo <info@mail.a.org>"}, "reply_to_near"),
        ({"return_path": "<x@b.org>"}, "return_path_differs"),
        ({"return_path": "<>"}, "return_path_empty"),
        ({"sender": "x@b.org"}, "sender_differs"),
        ({"list_id": "<l.b.org>"}, "list"),
        ({"precedence": "list"}, "list"),
        ({"precedence": "bulk"}, "precedence_bulk"),
        ({"list_unsubscribe": "<mailto:u@b.org>"}, "has_list_unsubscribe"),
        ({"from": '"Jo" <jo@a.org>'}, "from_named"),
        ({"from": "jo@a.org"}, "from_bare"),
        ({"to": "a@b.org, c@d.org"}, "to_2"),
        ({"to": ", ".join(["a@b.org"] * 99)}, "to_4"),
        ({"to": "Undisclosed recipients:;"}, "to_undisclosed"),
        ({"to": "Mo <mo@b.org>"}, "to_named"),
        ({"message_id": "<20261124.7ab$XY@a.org>"}, "id_n_o_n_l_d_u"),
        ({"message_id": "<7@mail.a.org>"}, "id_of_sender"),
        ({"message_id": "<7@b.org>"}, "id_of_another"),
        ({"message_id": "<7@pc>"}, "id_of_short_name"),
        ({"message_id": "<7@[192.0.2.7]>"}, "id_of_address"),
        ({"message_id": "<7>"}, "id_without_host"),
        ({"x_mailer": "Microsoft Outlook 16.0"}, "mailer_microsoft_outlook"),
        ({"user_agent": "Mutt/1.5 (2026)"}, "mailer_mutt"),
        ({"x_mailer": "7"}, "mailer_odd"),
        ({}, "mailer_none"),
        ({"content_type": 'multipart/mixed; boundary="--=_Part7"'}, "boundary_h_o_b_u_l_n"),
        ({"date": "Tue, 24 Nov 2026 11:00:00 +0100"}, "zone_0100"),
        ({"date": "Tue, 24 Nov 2026 11:00:00 -0500 (EST)"}, "zone_minus0500"),
        ({"date": "Tue, 24 Nov 2026 11:00:00"}, "zone_none"),
        ({"date": "soon"}, "date_broken"),
        ({"date": "Tue, 24 Nov 99999999 11:00:00 +0100"}, "date_broken"),
        ({"date": "Tue, 24 Nov 2026 09:59:00 +0000", "received": [NEW]}, "come_now"),
        ({"date": "Tue, 24 Nov 2026 09:00:00 +0000", "received": [NEW]}, "come_hours_later"),
        ({"date": "Sat, 28 Nov 2026 09:00:00 +0000", "received": [NEW]}, "come_days_before"),
        ({"date": "Sun, 4 Jan 2026 09:00:00 +0000", "received": [NEW]}, "come_much_later"),
        ({"received": ["from pc ([192.0.2.7]) by b.org"]}, "helo_short"),
        ({"received": ["from [192.0.2.7] by b.org"]}, "helo_address"),
        ({"received": ["from a.org (unknown [192.0.2.7]) by b.org"]}, "host_unknown"),
        ({"received": ["from mx.a.org (mx.a.org [192.0.2.7]) by b.org"]}, "helo_same"),
        ({"received": ["from a.org (mx.a.org [192.0.2.7]) by b.org"]}, "helo_near"),
        ({"received": ["from a.org (jo@mx.c.org [192.0.2.7]) by b.org"]}, "helo_differs"),
        ({"received": ["from mx.c.org ([192.0.2.7] helo=a.org) by b.org"]}, "helo_differs"),
        ({"received": ["from a.org (dsl-7-8.c.org [192.0.2.7]) by b.org"]}, "host_dynamic"),
        ({"received": ["by b.org with LMTP id 7"]}, "hop_inside"),
        ({"received": ["from a.org by b.org with ESMTPS id 7"]}, "by_esmtps"),
        ({"authentication_results": "b.org; spf=fail; dkim=pass"}, "spf_fail"),
        ({"authentication_results": "b.org; spf=fail; dkim=pass"}, "dkim_pass"),
        ({"received_spf": "SoftFail (b.org)"}, "spf_softfail"),
        ({}, "no_date"),
        ({"subject": ["a", "b"]}, "twice_subject"),
        ({"references": "<7@a.org>"}, "has_in_reply_to"),
        ({"importance": "high"}, "has_x_priority"),
    ],
)
def test_each_fact_has_its_word(headers: dict[str, str | list[str]], word: str) -> None:
    assert word in words(**headers)


def test_list_says_nothing_of_the_author() -> None:
    """It writes these headers itself."""
    found = words(list_id="<l.b.org>", reply_to="l@b.org", sender="l-admin@b.org", return_path="<>")

    assert not {word for word in found if word.startswith(("reply_to", "return_", "sender_"))}


def test_forged_result_below_the_newest_is_no_word() -> None:
    assert "spf_pass" not in words(authentication_results=["b.org; spf=fail", "b.org; spf=pass"])


def test_what_only_one_mail_has_is_no_word() -> None:
    """Two mails of one program on one way have the same words."""
    form = (
        "Received: from pc{0} (pc{0}.a.org [192.0.2.{0}]) by mx.b.org with SMTP id {0}; {1}\n"
        "Message-ID: <2026{0}.{0}@a.org>\nDate: {1}\nFrom: {2}@a.org\nTo: x@b.org\nX-Id: {0}\n\nhi"
    )
    first = form.format(17, "Tue, 24 Nov 2026 11:00:00 +0100", "jo")
    other = form.format(93, "Mon, 5 Oct 2015 03:10:59 +0100", "mo")

    assert first != other
    assert mail_document(first.encode())["headers"] == mail_document(other.encode())["headers"]


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.text(max_size=60), max_size=3)))
def test_nothing_raises_and_words_are_few(headers: dict[str, list[str]]) -> None:
    found = said(headers).split()

    assert len(found) == len(set(found)) < 200


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "piece", ["a", "a@", "a.", "7a", "(", "from a (b ", "helo=", "spf=x ", "<", '"', "a=\\"]
)
def test_long_headers_have_few_words(name: str, piece: str) -> None:
    long = piece * (limits.LONGEST_VALUE // len(piece))
    found = said({name: [long] * limits.MOST_VALUES, "to": ["x@b.org"]})

    assert len(found) < limits.LONGEST_SHORT // 2


@given(
    st.dictionaries(
        st.sampled_from([*sorted(READ), "list-id", "references", "x-mimeole", "importance", "x-y"]),
        st.lists(st.sampled_from(["", "Jo <jo@a.org>", NEW, "list", "spf=pass"]), max_size=2),
    )
)
def test_of_headers_that_are_not_read_the_names_suffice(headers: dict[str, list[str]]) -> None:
    """So their values are not decoded."""
    names = {name: value if name in READ else [] for name, value in headers.items()}

    assert said(names) == said(headers)
