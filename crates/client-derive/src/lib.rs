//! `#[derive(Fields)]` of the crate `client`: see `client::fields`.
#![forbid(unsafe_code)]

use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, parse_macro_input};

/// Makes a struct one of fields: each member is a field whose name is the member's in capitals, or that of `#[field("NAME")]`; its type is one
/// that implements `client::fields::FromValue`, or an `Option` of such, which may be blank. The members' types are checked when values come.
#[proc_macro_derive(Fields, attributes(field))]
pub fn fields(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn implementation(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "only a struct has members that are fields"));
    };
    let Fields::Named(members) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "members need names: they are those of the fields"));
    };
    let (mut names, mut sets) = (Vec::new(), Vec::new());
    for (place, member) in members.named.iter().enumerate() {
        let ident = member.ident.as_ref().expect("a named member");
        let mut name = LitStr::new(&ident.to_string().trim_start_matches("r#").to_uppercase(), ident.span());
        for attribute in member.attrs.iter().filter(|attribute| attribute.path().is_ident("field")) {
            name = attribute.parse_args()?;
        }
        names.push(name);
        sets.push(quote!(#place => self.#ident = ::client::fields::FromValue::from_value(value)?));
    }
    let name = &input.ident;
    let (generics, types, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::client::fields::Fields for #name #types #conditions {
            const NAMES: &'static [&'static str] = &[#(#names),*];

            fn set(
                &mut self,
                place: usize,
                value: &::client::fields::Primitive<'_>,
            ) -> ::core::result::Result<(), ::client::fields::WrongType> {
                match place {
                    #(#sets,)*
                    _ => {}
                }
                ::core::result::Result::Ok(())
            }
        }
    })
}
