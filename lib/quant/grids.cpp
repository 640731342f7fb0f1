// The IQ codebooks, written by tests/quant/make_grids.py: do not edit. A codebook is a rising list of 16-bit
// numbers, 2 bits (IQ1, IQ2) or 4 bits (IQ3) per weight, each choosing a level. The text holds the gaps
// between them: a digit below 64 ends a gap, digit 64 + k adds (k + 1) * 64 to it. Digits are the ASCII
// characters from 35 on without ? and backslash.
#include "quant/grids.h"

#include <string_view>

namespace coterie::quant {
namespace {

template <typename Entry, size_t size, size_t n_levels>
constexpr std::array<Entry, size> codebook(std::string_view gaps, const int (&levels)[n_levels]) {
    constexpr int weights = sizeof(Entry), bits = 16 / weights;
    std::array<Entry, size> entries{};
    size_t n = 0;
    uint32_t word = 0;
    for (const char c : gaps) {
        const uint32_t digit = uint32_t(c) - 35 - (c > '?') - (c > '\\');
        if (digit >= 64) {
            word += (digit - 63) * 64;
            continue;
        }
        word += digit;
        for (int i = 0; i < weights; ++i)
            entries[n] |= Entry(uint8_t(levels[(word >> (i * bits)) & ((1 << bits) - 1)])) << (8 * i);
        ++n;
        ++word;
    }
    return entries;
}

constexpr int iq2_levels[] = {8, 25, 43};
constexpr int iq3xxs_levels[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int iq3s_levels[] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr int iq1_levels[] = {-1, 0, 1};

}  // namespace

constinit const std::array<uint64_t, 256> iq2xxs_grid = codebook<uint64_t, 256>(
    "#$%%$)%.$($9%.*+%>$*:eB%.'Ne&6eK$CeCic%.3%>$(:D%.6e>$(:IF93e[)Se&Ci>'%.6;%.$Ye``g$4yfP%.3BCG.'eN*:S,"
    "IfGDj_*:'GZf:e,fA8kN%.Se#ec'f=fTyeR$*^@B$fJBf[$kc%.S8fMe#FhOi[:eWjSyyyyfa%.*+%>*0,D%.eSCe#B'e`1[04j:"
    "*:eC;e]4g>l#%.S'f_e:+Dg%e-yS*+*)eC*e`beEgPkc$e[gZe5jO3*e-g>g*yf`.SKf:e7g%e*jC'h-$eUnbyyyynb$*Ze#f$6K"
    "g3kS%.'NCfCe(e0eXZCjEh$h/yfV.6>eDeXeMg'j_EEh/pSfByjEe0Xf&gZl:t[fW",
    iq2_levels);

constinit const std::array<uint64_t, 512> iq2xs_grid = codebook<uint64_t, 512>(
    "#$%%$)%$%)$%%;%$%)$%%+%>$%%+%')eD%$%)$%%$)%>$%%+%.*;%.eS$%%+%.D%.'N,iZ%$%)$%%+%>$%%+%$,D%.eS$%%+%.D%"
    ".3Bf#%.8<$e$i`$%%$)%.'>%.*KC,e9%.Se#*eZC*eQ,yD%$%)$%%+%>$%%+%.,9%.eS$%%+%.D%.S6$eN%$,SCjC$%%+%.D%')6"
    ">f#%.Sfd6Xj[%.$Q6Ue^'eDgNe:y9$%%$)%.D%.SCeD%.S*@f=EeAKi;%.;9fde#3e)eK;f.i<*$8XV<g(Ke[:eE($yyyyeZ%$%)"
    "$%%+%>$%%$)%.'>%.eS$%%+%.D%.S'@eB%.$99jd$%%+%')D%.S6eP%.6>e<eI,^.jT%.S'10fA3V.;f=yf`$%%+%.*;%.Sf#%.'"
    "N$fbe&eIi9%.3BCDCeB*e[*f;e)]iB6P1e+f#I$i%y`%.S60GFe9hGIe*iQ8g^S'eBm@eLf_gDe00yyyyfA$%%+%.,9%.S$I$e9%"
    "$,S3*fJCeC$A*i;%.$%NCLeZe&eDeVe4j8*@XI$IeAh>eA*04y;%.S8Qe`Ee$gUViZ'c.*g3eJ$fRl2e7fFg.e-yeC$($8,eYfT*"
    "e/e<$(Ee8CjCe7k2ViU8$(e[*e>ed$fE$eJ;",
    iq2_levels);

constinit const std::array<uint64_t, 1024> iq2s_grid = codebook<uint64_t, 1024>(
    "#$%%$)%$%)$%%;%$%)$%%+%$%9$%%+%.''e9%$%)$%%+%>$%%+%$%)'%;%.$%.%e>$%%+%.,9%$%)'N'',0iB%$%)$%%+%$%9$%%"
    "$)%$%)$%>%$%)'%+%e>$%%$)%$%)'%;%$%)$%%+%>$%%+%.eD%$%)'N'%+%.D%.iS$%%+%$%)''9%$%)$%%+%>'18e9%.$%%+B'%"
    "+%.D1eS3%0($Ie+yK%$%)$%%+%$<$%%+%$%)$%%;%$,'%+%e>$%%$)%$%)$%%;%$%)$%%+%>$%%+%eP%')'.%>'.%P%.iS$%%+%$"
    "%)'%;%$%)$%%+%>$%%+%.eD%$%)$%%+%>$%%+%.D%.eS'%+%.D%.SMi9%$%)'%+B$%%+%.D%e`$%%+%.D%.;]eE.S8yeM$%%+%$%"
    ")''9%.$%1>,,8e9%.$%.B$%.%.D%.eS,:($<.[$Ai;%$%)'%+%>$%%+%.D%.eS'%+%.D%.8<f#%.S;jJ'.%P%.^Ce9%.f'eX:e$G"
    "$yyyyeZ%$%)$%%$)%$<$%%$)%$%)$%>%.'%+%e>$%%+%$%)$%>%$%)$%%+%>$%%+%.eD%.$%%.>'%+%.D%i`$%%$)%$%)$%%;%$%"
    ")$%%+%>$%%+%.eD%$%)$%%+%>$%%+%.,9%.eS$%%+%.D%.SHi>%')$%%+%>$%%+%.G.eS$%%+%.D%.S8eN%.Syed$%%+%$%)$%%;"
    "%$%)$%%+%>$%%+%eP%$%)$%%+%>$%%+%.D%.eS'%+%.D%.;9j#%$%)$%%+%>$%%+%.D%.eS$%%+%.D%.Sf#%.8<jd$%%+%.D%.,I"
    "f#%.Sfd;eOFy;%$,$%%+%>'%+%.G.eS$%%+%.D%.S;eN.S8e-iB'%+%.D%.Sf#%.S,AMeQf6iP%.e7VeKMh:eByyyyeB$%%+%')'"
    ">%.$%%+B'.%eP%')$%%+%>$%%+%P%.;e9'')%P%.jT%$%)$%%+B$%%+%.D%.eS$%%+%.D%.S,eZ%.;9jd'.%P%.e4eB%`HfaY$KC"
    "yB%')$%%.>$%%+%.D%.eS'.%P%.,fJ%.SeIi<$%%+%.D%.S8eN%.Se:+eBe(Aj@%.8<eLe9e++hbyS'',0*9%.e4*f8Hf@*:($e:"
    "($Ai;%.Se+=e>;h[j]Ae^fUUf$$8$(eCE",
    iq2_levels);

constinit const std::array<uint64_t, 2048> iq1_grid = codebook<uint64_t, 2048>(
    "#$%%$)&-$($=.%$1=$($--$($e<#.%$%#->'%+%')%$$@.%$1e=$($--$($=.*-'9$($)&&)$($iJ%$1>*.',#O*.e>%##1%$19'"
    "'(#%##%)$%%$92&%$)%##%eN'K%.$%%*#'%>.%'iJ$($--$($=.'1=$($--$($e=.%'-#>1#&.%'K%$%.e=$($--$($=.**&=$%%"
    "$--$($yI#%'-#>%.'%+%#&K%$-&e>%$%)$%%+%'>'(##$##%)'B0%.%eP%$1=(%+%%$,$B.%$1i>'%-#%#*'=&#$$)%##%+%%>')"
    "&#%##)%#&e;%')%##%)$%%$9%##-#$##%#)%##%9$$#%$(#%##%#($%e>%##1#$$)'<$$#%$)&#$#*%#%##>&*%1'iK'1>%$%)'%"
    "$(#%$%>.%3eN$%')&@$#%+%##%#(''B*#%%+'%eC/0$A$%)$%%+'%>.'&yI$($--$%%$=.**&=$($--$%%$e=.%'.@$'.%$)%##B"
    "-(%.e>)$)&-$($=.'%.>)$)&-$($i=1$%.B##%+%%$.B.%'*&eG..*9'%+%#&+%%D)&#%$)%$%e>-$).>*.-#*=$,,iI$($--$($"
    "=.%3=$($8$($eB*%'.D%+%.%$%>-(%-#e=$($8$($=.'%.=$($--$($yyyye=.'1G+%%$)%$Q'*'e<#%$%+%#$$)'%>%$)%##%#-"
    "%$9%$,$%-##eF.%$1>3%','C-3i>6&2>%$)%##-#%%$9'%)$%-#*e:#%')%##%)''9%##%)#%##$#*%##%;$#%+%##%#-%$e9&&-"
    "#%$)%'9$%%*##%#%+%%;&',#.%$iB.&'-@))'%+%$%>.%$%.e>&#&(&#%+%$<'')#$##%)$%#&>%+%#$+%$%ePQ$%.%$,'N3y>%#"
    "#%+%')%'9'%+%##%.%A%.%*#'%e>%##)%##$#)'#$$9%##%)##$##$##)%##%;%.%##%)''e9'.%')%A%')%##%+%C-$%&#,iC#."
    "%##$#*&%$9%##%#(#%##$##)#$##%9*$)%##%*%#'e9#$##%)##$##%#)%##%9##$##$#)##$##$##(#%##$##9%#&#(#%##$#*%"
    "##%e9##$$$#*%#%#)##$##$#:&#$##(##$##$##)%#&;%#$##)&'*%#$#i=##%)'%++=%$)%##$#)$$#@))$%%+*e:#%')%##%.>"
    "%##%)##$##$##)%##%:&&*%##$#.eB&/'('#%>%#*&#$#+%%$9+*%#$$)yG1$%.B.'#$$)%$%:71e>%$%+%.#&%>&*&#%.#&<(*%"
    ".'%eK'%J#'1#$*H.'1iO#%#&)'%9$%%$)%##%#($%B#&)$$##$$)%'e>%$)&#%N##%)#%##%*%##%@%#)&#%#*%#$e<).-($#9'%"
    "$)%##$$('%:$%',$$#)&$&iO%.>3%')*>.)0e=%.'.%$%9#&#$+%##%)'':$(-.%#&eK'$L%')'%$,#&@0&$.yyyye<$($8$($=-"
    "#%$%.=$($--$($e=.%$%.>%')$%#$#-$%>&-$%.e=$($--$($J%'.=$($--$($iM'K%/&')%'N'eK*+%'.%9#&%+%##%#-#$$9%$"
    "%)$%%0eN'%.>%'#('&#)'&=.+,i>$($--$($9&.%'.&9$($--$($e=#-%$1>%$%)$%')%D3%.e=$($--$($=.%$M$($--$($y=.'"
    "$#.>'%.%$1#=.%$%.e>%$%)'%$)%$%9'-#%##%+%B$.%%+%$%e>.%'.B$%)$%%0%>1$5i:%$,'%0<,)%##$#)##%B$.$#%+*e9'%"
    "$(#%##%*&&#9%##%)##$##$##)%##%:&%+#$##%#($%%$e9%.'&)(%>%#*#%#%.%<$'#*$#1$%i>3%.>',$%#&,#C.'%.eB$%)$%"
    "%$(#%$<$%%$)%##%+%#&9%.$%')'eB22B$%)'%+G.%##yM$($--$($=.%$%J$($--$($e=&*%$%#O%*&%$)%D-$&%eL($(++($=."
    "'%.=$($--$($iR.>%.&#%$)&#$#>f#%)$%%0%;%.%##%.'9%##%+%%eP.'&)&B$&*%#$*$G,'#%*%$i<$($8$($J%$%J$($--$($"
    "e=1'*&>1'')'%J(eM$($8$($J%$M$($--$($",
    iq1_levels);

constinit const std::array<uint32_t, 256> iq3xxs_grid = codebook<uint32_t, 256>(
    "#$$/$&+$13T$f.$/$1&-$15>f2$$/1$1$&<(Af.(+$5e-fFG/5>$f.(NCgFRfO&$PAyqC$/$1$/$$5+fS$11$gB$/$11e$f0$A37"
    "Cf=&e-g2&ENf6h@Ayqd$1$/$&-3fc$$-$11V&+f2$1(+$7+7fO1&e>&g#AfSG<Vj/$5Ryq`1$1$P7/f0$A35$f_$/7PCfBEga9Nf"
    "0(>VfcEPg2PyqG5A$>&h@fO9+C(fDbfce/5g#APj7-$AyrERRf2(CRfcAdf2e3fa5&e-f2RhBg6AyrEC$AfadfYe/g.(h0g#e/gD"
    "g2AyrE$$+ECg6<g4V/fQ7APg#Cfc$Eh.",
    iq3xxs_levels);

constinit const std::array<uint32_t, 512> iq3s_grid = codebook<uint32_t, 512>(
    "###%$+##$$,#&0/$%$,$/$1%%f+##$.#&-%&,&1@&/f0#&$+%%-&-&0%$,$@%f20&-$1$%0.$7,&f-5&,%00%0Bf4$>$&/0&$B/f"
    "5-$ADBf1$$>$&/@&yqO##$.#$$$+$1%$A$-3f0#$%,&/1%01$A(f,4%$+&00%4-4f1%%+%0(+&/D0f5$/$@$1&,&fP1%01$Bg1&%"
    "@$f_$/$16.D0yq2#$$$+$$$-$&+$1$$-$7+%$f-$0%&-%.%01fS%%<$/),4&<%f.$%.3$/$108f=(;%1%.T%f1/37+5@f2$'<W.f"
    "G.7,5/yqU1$$$-1$$/$%,40f2$$1/$@C4&f,404$>fT1&/$&+3$&0Af20'.1D0&f@1$5/44@fFNfd$@$5yr-&00&%-11Cf4',$10"
    "'00&fO$/'.4/9-0f6/$/$1&g-$E5+Tf6$<e#fTDOfS'=50yqT0&0A&%-60f/$$/13df034/(@fR'+9@/60f0%>46g.6N$gRfd$Ay"
    "rR$$>$PfCC)afQE05/0f26/BgHABfA%TOfH_g3$yrP&%;$6,60fC15B$f`%.(-1DfTS%AfQ&0/Sg4CfdRg1",
    iq3s_levels);

}  // namespace coterie::quant
