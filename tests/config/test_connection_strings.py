"""The passwords in addresses and connection strings, each in the form that its vendor documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.config.secrets.connection_strings import settings_in
from zeus_runtime.config.secrets.masking import secrets_of_environment

WITH_PASSWORD = r"""
app/***@//db.example:1521/ORCL
app/***@db.example:1521/ORCL
app/***@db.example:1521:ORCL
app/***@tcps://db.example:1521/ORCL
app/***@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1521))(CONNECT_DATA=(SID=x)))
DB_LOGIN=app/***@//db.example:1521/ORCL
jdbc:oracle:thin:app/***@//db.example:1521/ORCL
jdbc:oracle:thin:app/***@db.example:1521/ORCL
jdbc:oracle:thin:app/***@db.example:1521:ORCL
jdbc:oracle:oci:app/***@ORCL
jdbc:oracle:oci8:app/***@(DESCRIPTION = (ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1521)))
jdbc:oracle:thin:app/***@tcps://db.example:1521/ORCL?wallet_location=/opt/wallet
jdbc:oracle:thin:app/***@ldap://ldap.example:389/ORCL,cn=OracleContext,dc=example
jdbc:oracle:thin:proxy[app]/***@//db.example:1521/ORCL
jdbc:oracle:thin:"App"/"***"@//db.example:1521/ORCL
-Ddb.url=jdbc:oracle:thin:app/***@//db.example:1521/ORCL
cannot connect to jdbc:oracle:thin:app/***@db.example:1521/ORCL
jdbc:oracle:thin:@//db.example:1521/ORCL?user=app&password=***
jdbc:sqlserver://db.example:1433;databaseName=shop;user=app;password=***;encrypt=true
jdbc:sqlserver://db.example;password=***;user=app
jdbc:jtds:sqlserver://db.example:1433/shop;user=app;password=***
jdbc:db2://db.example:50000/shop:user=app;password=***;
jdbc:db2://db.example:50000/shop:password=***;user=app;
jdbc:informix-sqli://db.example:1533/shop:INFORMIXSERVER=ifx;user=app;password=***
jdbc:h2:mem:test;USER=sa;PASSWORD=***
jdbc:h2:tcp://localhost/~/test;USER=sa;PASSWORD=***
jdbc:h2:file:/data/sample;PASSWORD=***
jdbc:teradata://db.example/DBS_PORT=1025,USER=app,PASSWORD=***
jdbc:teradata://db.example/PASSWORD=***,USER=app
r2dbc:pool:postgresql://app:***@db.example:5432/shop
jdbc:snowflake://acct.snowflakecomputing.com/?user=app&password=***&db=shop
jdbc:postgresql://db.example/shop?user=app&password=***
jdbc:mysql://app:***@db.example:3306/shop
jdbc:sap://db.example:30015/?databaseName=HDB&user=app&password=***
jdbc:exa:db.example:8563;user=app;password=***
jdbc:sybase:Tds:db.example:5000/shop?user=app&password=***
snowflake://app:***@acct/shop/public?warehouse=wh
mongodb+srv://app:***@cluster0.example.net/shop?retryWrites=true&w=majority
mongodb://app:***@h1.example:27017,h2.example:27017/shop?replicaSet=rs0
redis://:***@cache.example:6379/0
amqp://app:***@mq.example:5672/%2Fvhost
ldap://cn=admin,dc=example:***@ldap.example:389
smtp://mailer:***@smtp.example:587
smtps://mailer2024%40example.com:***@smtp.example:465
mssql+pyodbc://app:***@db.example/shop?driver=ODBC+Driver+17+for+SQL+Server
oracle+oracledb://app:***@db.example:1521/?service_name=ORCL
hdbcli://app:***@db.example:30015
host=db.example port=5432 dbname=shop user=app password=***
dbname=shop password='***' host=db.example
Driver={ODBC Driver 18 for SQL Server};Server=tcp:db.example,1433;Database=shop;Uid=app;Pwd=***;Encrypt=yes
DSN=shop;UID=app;PWD=***
Data Source=db.example;Initial Catalog=shop;User Id=app;Password=***;
Data Source=db.example:1521/ORCL;User Id=app;Password=***
Data Source = db.example; User Id = app; Password = ***
Server=db.example;User ID=app;Password="***";Trust Server Certificate=true
Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=***
DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=***;EndpointSuffix=core.windows.net
AccountEndpoint=https://shop.documents.azure.com:443/;AccountKey=***;
cache.example:6380,password=***,ssl=True,abortConnect=False
redis0.example:6379,redis1.example:6379,password=***
ODBC;DSN=shop;UID=app;PWD=***
Password=***;Server=db.example
Password=***; Server=db.example; Encrypt=yes
password=***, host=db.example
app:***@tcp(db.example:3306)/shop
"""
WITHOUT = """
jdbc:oracle:thin:@//db.example:1521/ORCL
jdbc:oracle:thin:@db.example:1521:ORCL
jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1521)))
jdbc:oracle:thin:/@//db.example:1521/ORCL
jdbc:oracle:oci:/@customer-4711
jdbc:oracle:thin:<user>/<the-password>@//db.example:1521/ORCL
jdbc:oracle:thin:app/${DB_LOGIN_TEXT}@//db.example:1521/ORCL
jdbc:sqlite:/home/me@corp/customer-4711/shop.db
jdbc:h2:file:./data/customer-4711@corp/shop
jdbc:h2:mem:test;DB_CLOSE_DELAY=-1;MODE=Oracle
jdbc:sqlserver://db.example:1433;databaseName=customer-4711;integratedSecurity=true
mongodb://h1.example:27017,h2.example:27017/shop?replicaSet=customer-4711
"""


@pytest.mark.parametrize("password", ["s3cret-word", "Kr4ftwerk9xTq"])
@pytest.mark.parametrize("form", WITH_PASSWORD.split("\n")[1:-1])
def test_of_an_address_or_a_connection_string_the_password_is_a_secret(form: str, password: str) -> None:
    known = secrets_of_environment({"SHOP": form.replace("***", password)})
    assert password in known.secrets
    assert known.text(form.replace("***", password)) == form.replace("***", "<secret:SHOP>")


@pytest.mark.parametrize(
    "text",
    [
        "Write token = f_of(abcd), api_key=g_of(abcd)",
        "Write the token = abc-defgh, then api_key=abc-defghi",
        "f_of(a, token=abc-defgh, key=abc-defghi)",
        "token = f_of(abcd); api_key = all_keys[1]",
        "username, password = request.url.username, request.url.password",
        "mix(a; password=abc-defgh)",
        "redis, password=abc-defgh is wrong",
        "token = f_of(abcd); b = 2\nc = 3",
        "password=abc-defgh; is wrong, and token=abc-defgh",
        "PWD=/work/our project; HOME=/root; b=1",
        "if x; then token=abc-defgh, fi",
        "token=abc-defgh; path=/; secure",
    ],
)
def test_prose_and_code_are_no_connection_string(text: str) -> None:
    assert not secrets_of_environment({"SHOP": text}).secrets


@pytest.mark.parametrize("form", WITHOUT.split("\n")[1:-1])
def test_of_an_address_without_a_password_nothing_is_a_secret(form: str) -> None:
    assert not secrets_of_environment({"SHOP": form}).secrets


def test_the_settings_of_mysql_may_be_in_brackets() -> None:
    for written in (
        "address=(host=db)(user=app)(password=s3cret-word)",
        "(host=db,password=s3cret-word)",
    ):
        assert secrets_of_environment({"SHOP": f"jdbc:mysql://{written}/shop"}).secrets == {"s3cret-word"}


def test_a_password_of_oracle_may_have_the_signs_of_an_address() -> None:
    known = secrets_of_environment({"SHOP": 'jdbc:oracle:thin:app/"s3/cr@et w"@//db.example:1521/ORCL'})
    assert known.secrets == {"s3/cr@et w"}
    known = secrets_of_environment({"SHOP": "jdbc:oracle:thin:app/s3cr@et-w@//db.example:1521/ORCL"})
    assert known.secrets == {"s3cr@et-w"}


def _doubled(password: str, quote: str) -> str:
    return password.replace(quote, quote * 2)


def _escaped(password: str) -> str:
    return re.sub(r"(['\\])", r"\\\1", password)


DRIVERS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    # What a driver does not take without quotes is left out.
    "libpq, quoted": ("", lambda each: f"host=db user=app password='{_escaped(each)}' dbname=shop"),
    "libpq, last": ("", lambda each: f"host = db user = app password = '{_escaped(each)}'"),
    "libpq, alone": (" ", lambda each: f"password='{_escaped(each)}'"),
    "libpq, plain": (" ", lambda each: f"host=db password={_escaped(each)} dbname=shop"),
    "ADO.NET, quoted": (
        "",
        lambda each: f'Server=db,1433;User Id=app;Password="{_doubled(each, chr(34))}";X=1',
    ),
    "ADO.NET, single": (
        "",
        lambda each: f"Server=db; Application Name=; Password='{_doubled(each, chr(39))}';",
    ),
    "ADO.NET, plain": (";", lambda each: f"Data Source = db; Pwd = {each} ;Encrypt=True"),
    "ODBC, braces": (
        "",
        lambda each: f"Driver={{ODBC 18}};Server=db;PWD={{{_doubled(each, '}')}}};Encrypt=yes",
    ),
    "JDBC": ("", lambda each: f"jdbc:sqlserver://db:1433;user=app;password={{{_doubled(each, '}')}}};x=1"),
    "Redis": (", ", lambda each: f"cache:6380,password={each},ssl=True"),
}


@settings(max_examples=40, deadline=None)
@given(st.text([chr(code) for code in range(32, 127)], max_size=12))
def test_a_password_of_any_signs_that_its_driver_takes_is_a_secret(signs: str) -> None:
    password = f"Kx9m{signs}Q2vL"
    for driver, (excluded, written) in DRIVERS.items():
        if not set(excluded) & set(password):
            known = secrets_of_environment({"SHOP": written(password)})
            assert password not in known.text(f"login failed: {password} was refused"), driver
            whole = known.text(f"it has {written(password)} there")
            assert "Kx9m" not in whole, driver
            assert "Q2vL" not in whole, driver


@pytest.mark.timeout(5)
def test_a_long_text_is_read_in_linear_time() -> None:
    for text in (
        "a={;" * 12_000,
        "a= " + " " * 50_000 + "x\ny;",
        "jdbc:" + " " * 50_000 + "=;",
        "a=b " + "a=\\" * 20_000,
    ):
        list(settings_in(text))


@pytest.mark.parametrize(
    "form",
    [
        "postgresql://***:***@localhost:5432/shop",
        "postgresql://app:***@localhost/***?sslmode=disable",
        "postgresql://app:***@***:5432/shop",
        "DB_URL=jdbc:postgresql://localhost/***?user=app&password=***",
        "jdbc:sqlserver://db;databaseName=***;user=app;password=***",
        "jdbc:mysql://(host=db,user=***,password=***)/shop",
        "***:***@tcp(db:3306)/shop",
        "host=localhost user=*** password=***",
        "Server=db;Initial Catalog=***;User Id=app;Pwd=***",
    ],
)
def test_a_password_that_is_the_user_the_database_or_the_host_beside_it_is_no_secret(form: str) -> None:
    for word in ("shop-api", "acme_shop", "myapp2024"):
        known = secrets_of_environment({"DATABASE_URL": form.replace("***", word)})
        assert known.text(f"ls services/{word}") == f"ls services/{word}"
    key = "x7Kq9mPz2vLw"
    assert secrets_of_environment({"DATABASE_URL": form.replace("***", key)}).holds(key), "it looks random"


@pytest.mark.parametrize(
    "form",
    [
        "postgresql://app:***@db/shop,postgresql://app:***@db-2/shop",
        "postgresql://app:***@db/shop?password=***&note=***",
        "postgresql://app:***/x@db/shop",
        "postgresql://app:***@db/***-2",
        "redis://:***@db?pw=***",
        "host=db password=*** options=***",
        "app:***@tcp(db:3306)/shop",
        '{"pw": "***", "url": "postgresql://app:***@db/shop"}',
        "*** is the password of postgresql://app:***@db/shop",
        "https://x.example/***/?api_key=***-2",
    ],
)
def test_a_password_that_is_no_name_beside_it_stays_a_secret(form: str) -> None:
    known = secrets_of_environment({"DATABASE_URL": form.replace("***", "correct-horse")})
    assert known.holds("correct-horse") or known.holds("correct-horse-2")
