"""`tidegate doctor` finds what is wrong with Ray's certificates before the first connection does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tidegate.console.doctor.certificates import check_certificates, own_address
from tidegate.console.doctor.finding import Finding, Severity
from tidegate.runtime.network.tls_files import TlsFiles

from ..certificates import Authority
from .test_doctor import doctor

LOOPBACK = "127.0.0.1:1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def environment(files: TlsFiles) -> dict[str, str]:
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": files.certificate,
        "RAY_TLS_SERVER_KEY": files.key,
        "RAY_TLS_CA_CERT": files.authority,
    }


def found(files: TlsFiles, address: str = LOOPBACK) -> Finding:
    (finding,) = check_certificates(address, environment(files))
    return finding


def good(authority: Authority, name: str = "node") -> TlsFiles:
    return authority.files(name, addresses=["127.0.0.1"])


def test_without_tls_nothing_is_checked() -> None:
    assert list(check_certificates(LOOPBACK, {})) == []


def test_a_certificate_that_is_right_is_valid_for_the_address_of_the_node(authority: Authority) -> None:
    finding = found(good(authority))
    assert (finding.severity, finding.text) == (Severity.OK, "valid for 127.0.0.1, for 29 more days")


def test_a_variable_that_is_not_set_is_named() -> None:
    (finding,) = check_certificates(LOOPBACK, {"RAY_USE_TLS": "1", "RAY_TLS_CA_CERT": "/ca.crt"})
    assert finding.severity is Severity.ERROR
    assert "RAY_TLS_SERVER_CERT and RAY_TLS_SERVER_KEY are not set" in finding.text
    assert "PEM files on every node" in finding.remedy


@pytest.mark.parametrize(
    ("change", "text", "remedy"),
    [
        ({"certificate": "/none.crt"}, "cannot read /none.crt (RAY_TLS_SERVER_CERT): No such file", "create"),
        ({"key": "/none.key"}, "cannot read /none.key (RAY_TLS_SERVER_KEY): No such file", "create"),
        ({"authority": "/none.ca"}, "cannot read /none.ca (RAY_TLS_CA_CERT): No such file", "create"),
        ({"authority": os.devnull}, "(RAY_TLS_CA_CERT) contains no certificates in PEM", "set RAY_TLS"),
        ({"certificate": os.devnull}, "(RAY_TLS_SERVER_CERT) contains no certificate in PEM", "set RAY_TLS"),
    ],
    ids=["certificate", "key", "authority", "empty authority", "empty certificate"],
)
def test_a_file_that_cannot_be_read_is_named(
    authority: Authority, change: dict[str, str], text: str, remedy: str
) -> None:
    finding = found(replace(good(authority), **change))
    assert finding.severity is Severity.ERROR
    assert text in finding.text
    assert remedy in finding.remedy


def test_a_key_of_another_certificate_is_an_error(authority: Authority) -> None:
    finding = found(replace(good(authority), key=good(authority, "other").key))
    assert "does not belong to the certificate" in finding.text
    assert finding.remedy == "Set both to one pair"


def test_a_certificate_that_has_expired_is_an_error_and_one_that_soon_does_is_a_warning(
    authority: Authority,
) -> None:
    finding = found(authority.files("old", days=-1, addresses=["127.0.0.1"]))
    assert (finding.severity, finding.remedy) == (Severity.ERROR, "Renew it")
    assert "has expired" in finding.text
    finding = found(authority.files("soon", days=3, addresses=["127.0.0.1"]))
    assert finding.severity is Severity.WARNING
    assert "expires within 3 days" in finding.text


def test_a_certificate_of_another_authority_is_an_error(authority: Authority, tmp_path: Path) -> None:
    other = good(Authority(tmp_path, "other-ca"), "other")
    finding = found(replace(good(authority), authority=other.authority))
    assert f"is not signed by a certificate in {other.authority} (RAY_TLS_CA_CERT)" in finding.text
    assert finding.remedy == "Use one CA for all nodes"


def test_a_certificate_for_another_address_is_an_error(authority: Authority) -> None:
    finding = found(authority.files("elsewhere", addresses=["192.0.2.7"]))
    assert finding.severity is Severity.ERROR
    assert (
        "is not valid for 127.0.0.1, the address of this node, but for localhost, 192.0.2.7" in finding.text
    )
    assert "with 127.0.0.1 as a subject alternative name" in finding.remedy


@pytest.mark.parametrize("cluster", ["127.0.0.1:6379", "localhost:6379", "ray://127.0.0.1:10001"])
def test_the_address_of_this_node_is_that_in_the_network_of_the_cluster(cluster: str) -> None:
    assert own_address(cluster) == "127.0.0.1"


def test_the_address_in_an_ipv6_network_is_an_ipv6_address() -> None:
    assert own_address("[::1]:6379") == "::1"


def test_the_command_shows_the_finding(authority: Authority, tmp_path: Path) -> None:
    files = environment(replace(good(authority), key="/none.key"))
    code, findings = doctor("--address", LOOPBACK, environment={"HOME": str(tmp_path), **files})
    assert code == 1
    assert findings["certificates"]["severity"] == "error"
