"""The broker's keys about encryption, authentication and authorization, which pyk does not do yet.

They are kept and described, so that tools find them; whoever sets one is told that it does nothing.
"""

from __future__ import annotations

from typing import Final

from pyk.config.keys import PER_BROKER, Config, class_name, names, password, string
from pyk.config.rules import one_of

ONLY_BY_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""What changes at run time only under a listener's prefix."""


class SecurityConfig(Config):
    security_inter_broker_protocol: str = string(
        "PLAINTEXT",
        "The security protocol between brokers, unless inter.broker.listener.name chooses one.",
        rule=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        honoured=False,
    )
    authorizer_class_name: str = string(
        "", "The class that decides who may do what; without one everybody may.", honoured=False
    )
    principal_builder_class: str = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The class that names the client at the other end of a connection.",
        update=PER_BROKER,
        honoured=False,
    )

    sasl_enabled_mechanisms: tuple[str, ...] = names(
        ("GSSAPI",),
        "The SASL mechanisms that clients may choose from.",
        update=PER_BROKER,
        honoured=False,
    )
    sasl_mechanism_inter_broker_protocol: str = string(
        "GSSAPI",
        "The SASL mechanism between brokers.",
        update=PER_BROKER,
        honoured=False,
    )
    sasl_jaas_config: str | None = password(
        None,
        "The credentials of a SASL listener, in the format of Java's login configuration.",
        update=PER_BROKER,
        honoured=False,
    )

    ssl_client_auth: str = string(
        "none",
        "Whether clients must, should or need not show a certificate.",
        rule=one_of("required", "requested", "none"),
        update=PER_BROKER,
        honoured=False,
    )
    ssl_protocol: str = string(
        "TLSv1.3", "The version of TLS to prefer.", update=PER_BROKER, honoured=False
    )
    ssl_enabled_protocols: tuple[str, ...] = names(
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that connections may have.",
        update=PER_BROKER,
        honoured=False,
    )
    ssl_cipher_suites: tuple[str, ...] = names(
        (),
        "The ciphers that connections may have; an empty list leaves it to the library.",
        update=PER_BROKER,
        honoured=False,
    )
    ssl_keystore_type: str = string(
        "JKS", "The format of the broker's certificate and key.", update=PER_BROKER, honoured=False
    )
    ssl_keystore_location: str | None = string(
        None, "The file with the broker's certificate and key.", update=PER_BROKER, honoured=False
    )
    ssl_keystore_password: str | None = password(
        None, "The password of ssl.keystore.location.", update=PER_BROKER, honoured=False
    )
    ssl_keystore_key: str | None = password(
        None, "The broker's private key, as PEM.", update=PER_BROKER, honoured=False
    )
    ssl_keystore_certificate_chain: str | None = password(
        None,
        "The broker's certificate and those that vouch for it, as PEM.",
        update=PER_BROKER,
        honoured=False,
    )
    ssl_key_password: str | None = password(
        None, "The password of the broker's private key.", update=PER_BROKER, honoured=False
    )
    ssl_truststore_type: str = string(
        "JKS", "The format of the certificates to trust.", update=PER_BROKER, honoured=False
    )
    ssl_truststore_location: str | None = string(
        None, "The file with the certificates to trust.", update=PER_BROKER, honoured=False
    )
    ssl_truststore_password: str | None = password(
        None, "The password of ssl.truststore.location.", update=PER_BROKER, honoured=False
    )
    ssl_truststore_certificates: str | None = password(
        None, "The certificates to trust, as PEM.", update=PER_BROKER, honoured=False
    )
