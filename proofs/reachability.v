(* Reachability: which patterns serve every function of finite inputs. A version of Theorem 12.4, with
   one number a token, uniform attention over A_k (all logits equal), a skip, value weight 1/2, and
   token-wise maps g between the layers:
   - what has not reached token k does not change its state (fields);
   - for suitable g the state of token k after t layers determines k and exactly the inputs that have
     reached it (determines);
   - every function is computed by some number of layers if and only if the union graph is strongly
     connected (realise_iff); how many layers are the fewest is not part of it;
   - no token needs to read itself: the skip takes the place of the self-loop. But with one number a
     token the value weight must not be 1: two tokens that read only each other then get equal states
     (weight_one_fails). *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.

(* Numbers with R digits below M are equal only if all digits are. *)
Lemma digits M R (d e : nat -> nat) : (forall r, d r < M) -> (forall r, e r < M) ->
  \sum_(r < R) d r * M ^ r = \sum_(r < R) e r * M ^ r -> forall r, r < R -> d r = e r.
Proof.
elim: R d e => // R IH d e dM eM; rewrite !big_ord_recl !muln1.
have tail (f : nat -> nat) :
    \sum_(i < R) f (lift ord0 i) * M ^ lift ord0 i = (\sum_(i < R) f i.+1 * M ^ i) * M.
  by rewrite big_distrl; apply: eq_bigr => i _; rewrite /= /bump add1n expnSr mulnA.
rewrite !tail => eq1; have M0 : 0 < M by apply: leq_ltn_trans (dM 0).
have eq0 : d 0 = e 0.
  by move: (congr1 (modn^~ M) eq1); rewrite /= !(addnC _ (_ * M)) !modnMDl !modn_small.
case=> // r; rewrite ltnS; apply: (IH (fun r => d r.+1) (fun r => e r.+1)) => //; apply/eqP.
by move/eqP: eq1; rewrite eq0 eqn_add2l eqn_pmul2r.
Qed.

Section Reachability.
(* tokens, vocabulary; in layer l + 1 token k reads, besides its own skip,
  the tokens of A l k (perhaps none) *)
Variables (T V : finType) (A : nat -> T -> {set T}).
Local Notation input := {ffun T -> V}.
Local Notation n := #|T|.

(* (12.2): whom token k has heard of after t layers, itself by the skip *)
Local Notation heard := (heard_of (with_self A)).
Lemma heard_mono s t k : s <= t -> heard s k \subset heard t k.
Proof. by move/subnK <-; elim: (t - s) => // u IH; rewrite addSn heard_self;
  apply: subset_trans IH (subsetUl _ _). Qed.

(* the network: mean over A l k (0 if it is empty), value weight c, skip;
  then the next token-wise map *)
Definition layer (c : rat) (g : rat -> rat) l (s : T -> rat) k : rat :=
  (g (s k) + c * mean_on (A l k) (g \o s))%R.
Definition code (k : T) (v : V) : rat := ((enum_rank (k, v) : nat)%:R)%R.
Fixpoint net c (g : nat -> rat -> rat) t (X : input) k : rat :=
  if t is l.+1 then layer c (g l) l (net c g l X) k else code k (X k).

(* Theorem 12.4 (a) for these networks: what has not been heard of has no influence. *)
Lemma fields c g t (X X' : input) k : {in heard t k, X =1 X'} -> net c g t X k = net c g t X' k.
Proof.
elim: t k => [|t IH] k eqX /=; first by rewrite eqX ?set11.
rewrite /layer (IH k) => [|i it]; last by apply: eqX; rewrite heard_self inE it.
congr (_ + _ * (_ / _))%R; apply: eq_bigr => j jA; congr (g t _); apply: IH => i ij.
by apply: eqX; rewrite heard_self inE; apply/orP; right; apply/bigcupP; exists j.
Qed.
Lemma net_ext c g g' t X k : (forall l, l < t -> g l =1 g' l) -> net c g t X k = net c g' t X k.
Proof.
elim: t k => // t IH k eqg; have eqt j := IH j (fun l lt => eqg l (ltnW lt)).
rewrite /= /layer /mean_on eqt eqg //; congr (_ + _ * (_ / _))%R.
by apply: eq_bigr => j _; rewrite /= eqt eqg.
Qed.

Local Notation half := (2%:R^-1)%R.
(* One layer: powers of M as values; u and u' are the numbers of the states before it. *)
Lemma separate M (u u' : T -> nat) l k k' R : n * (3 * n) < M ->
  (forall j, u j < R) -> (forall j, u' j < R) ->
  layer half id l (fun j => (M ^ u j)%:R)%R k = layer half id l (fun j => (M ^ u' j)%:R)%R k' ->
  u k = u' k' /\ (k = k' -> forall j, j \in A l k -> exists2 j', j' \in A l k & u j = u' j').
Proof.
move=> bigM uR u'R; pose a i := maxn 1 #|A l i|.
have pos i : 0 < a i by rewrite leq_max.
have small i : a i <= n by rewrite geq_max max_card andbT; apply/card_gt0P; exists i.
(* c v k r: how many of those that k reads have the number r *)
pose c (v : T -> nat) i r := #|[set j in A l i | v j == r]|.
have c_le v i r : c v i r <= a i.
  rewrite leq_max; apply/orP; right; apply: subset_leq_card.
  by apply/subsetP => j; rewrite inE => /andP[].
(* the digits of 2 b a_i times the new state of i *)
pose d (v : T -> nat) i b r := b * (2 * a i * (v i == r) + c v i r).
have dM v i i' r : d v i (a i') r < M.
  apply: leq_ltn_trans bigM; apply: leq_mul => //; rewrite -[3]/(2 + 1) mulnDl mul1n.
  apply: leq_add; last exact: leq_trans (c_le _ _ _) (small i).
  by case: (_ == _); rewrite ?muln0 // muln1 leq_mul2l small.
have sum v i b : (forall j, v j < R) ->
    \sum_(r < R) d v i b r * M ^ r = b * (2 * a i * M ^ v i + \sum_(j in A l i) M ^ v j).
  move=> vR; rewrite mulnDr !big_distrr /=; under eq_bigr do rewrite /d mulnDr mulnDl.
  rewrite big_split /=; congr (_ + _).
    rewrite (bigD1 (Ordinal (vR i))) //= eqxx muln1 !mulnA big1 ?addn0 // => r ri.
    by move/negbTE: ri; rewrite eq_sym -val_eqE /= => ->; rewrite !muln0.
  under [RHS]eq_bigr do rewrite mulnC.
  rewrite (partition_big (fun j => Ordinal (vR j)) predT) //=; apply: eq_bigr => r _.
  rewrite /c -sum1dep_card big_distrr big_distrl /=.
  rewrite [LHS](eq_bigl (fun j => (j \in A l i) && (v j == r))) //.
  by apply: eq_big => [j|j /andP[_ /eqP <-]]; rewrite -?val_eqE ?muln1 // mulnC.
move=> eqL; have : a k' * (2 * a k * M ^ u k + \sum_(j in A l k) M ^ u j) =
                   a k * (2 * a k' * M ^ u' k' + \sum_(j in A l k') M ^ u' j).
  have out v i : ((2 * a i * M ^ v i + \sum_(j in A l i) M ^ v j)%N%:R =
      2%:R * (a i)%:R * layer half id l (fun j => (M ^ v j)%N%:R) i :> rat)%R.
    rewrite /layer /mean_on mulrDr natrD !natrM natr_sum; congr (_ + _)%R.
    have two : (2%:R * half = 1 :> rat)%R by rewrite mulfV.
    rewrite mulrACA two mul1r; have [A0|A0] := posnP #|A l i|.
      by move/eqP: A0; rewrite cards_eq0 => /eqP ->; rewrite !big_set0 mul0r mulr0.
    rewrite /a (maxn_idPr A0) mulrCA mulfV ?mulr1 //.
    by rewrite pnatr_eq0 -lt0n.
  apply/eqP; rewrite -(eqr_nat [numDomainType of rat]) !(natrM _ _ (_ + _)) !out eqL.
  move: (layer _ _ _ _ _) => x; rewrite mulrA [X in _ == X]mulrA mulrCA.
  by rewrite [X in (_ == X * x)%R]mulrCA [((a k')%:R * _)%R]mulrC.
rewrite -!sum // => /(digits (dM _ _ _) (dM _ _ _)) eqd.
have uu' : u k = u' k'.
  (* otherwise the digit at u k is at least 2 a a' on one side and at most a a' on the other *)
  have := eqd (u k) (uR k); rewrite /d eqxx muln1; case: eqP => // _; rewrite muln0 add0n => eq1.
  have : a k' * (2 * a k) <= a k * a k'.
    apply: leq_trans (_ : a k * c u' k' (u k) <= _); last by rewrite leq_mul2l c_le orbT.
    by rewrite -eq1 leq_mul2l leq_addr orbT.
  rewrite mulnCA [a k * _]mulnC -[X in _ <= X]mul1n leq_mul2r /= orbF muln_eq0.
  by rewrite !eqn0Ngt !pos.
split=> // kk j jA; move: (eqd (u j) (uR j)); rewrite /d uu' -kk => /eqP.
rewrite eqn_pmul2l // eqn_add2l => /eqP eqc.
have /card_gt0P[j'] : 0 < c u' k (u j) by rewrite -eqc; apply/card_gt0P; exists j;
  rewrite inE jA eqxx.
by rewrite inE => /andP[j'A /eqP]; exists j'.
Qed.

(* After t layers the state of token k determines k and exactly the inputs of the tokens that reach
  it. *)
Theorem determines t : exists g, forall X X' k k',
  net half g t X k = net half g t X' k' <-> k = k' /\ {in heard t k, X =1 X'}.
Proof.
elim: t => [|t [g IH]].
  exists (fun _ => id) => X X' k k'; rewrite /= /code; split=> [/eqP|[-> eqX]].
    by rewrite eqr_nat => /eqP/val_inj/enum_rank_inj[-> eqX]; split=> // j /set1P ->.
  by rewrite eqX ?set11.
(* number the finitely many states before the layer, and send number i to M^i *)
pose vals := [seq net half g t p.1 p.2 | p <- enum [finType of input * T]].
have in_vals X k : net half g t X k \in vals by apply/mapP; exists (X, k); rewrite ?mem_enum.
pose M := (n * (3 * n)).+1; pose number x := index x vals.
pose g' l := if l == t then fun x => (M ^ number x)%:R%R else g l.
have eqg X k : net half g' t X k = net half g t X k.
  by apply: net_ext => l lt x; rewrite /g' (ltn_eqF lt).
have step X k : net half g' t.+1 X k =
    layer half id t (fun j => (M ^ number (net half g t X j))%:R)%R k.
  rewrite /= /layer /mean_on {1 2}/g' !eqxx eqg; congr (_ + _ * (_ / _))%R.
  by apply: eq_bigr => j _; rewrite /= /g' eqxx eqg.
exists g' => X X' k k'; split=> [|[<- eqX]]; last exact: fields.
rewrite !step => /(@separate M _ _ t k k' (size vals) (ltnSn _))[j|j|]; rewrite ?index_mem //.
have inj Y Y' j j' : number (net half g t Y j) = number (net half g t Y' j') ->
    net half g t Y j = net half g t Y' j'.
  by move=> e; rewrite -(nth_index 0%R (in_vals Y j)) -(nth_index 0%R (in_vals Y' j')) -/(number _)
    e.
move=> /inj/IH[kk own] read; split=> // i; rewrite heard_self inE => /orP[/own //|/bigcupP[j jA iS]].
by have [j' _ /inj/IH[_ eqX]] := read kk j jA; apply: eqX.
Qed.

(* A cycle of p steps; k reads j in some step. *)
Variable p : nat.
Hypothesis cyclic : 0 < p /\ forall l, A (l + p) =1 A l.
Local Notation reads := (reads A p).
Lemma step_mod l k : A l k = A (l %% p) k.
Proof.
case: cyclic => _ cyc; rewrite {1}(divn_eq l p) addnC; elim: (l %/ p) => [|m IH].
  by rewrite mul0n addn0.
by rewrite mulSn addnCA addnC cyc.
Qed.

(* Somebody is heard of, sooner or later, if and only if there is a path in the union graph. *)
Theorem reached k j : connect reads k j <-> exists t, j \in heard t k.
Proof.
have p0 := cyclic.1; split=> [/connectP[ks]|[t]].
  elim: ks k => [|k' ks IH] k /=; first by exists 0; rewrite inE; apply/eqP.
  case/andP=> /existsP[l k'A] path_ks last_ks; have [t jt] := IH k' path_ks last_ks.
  exists (t * p + l).+1; rewrite heard_self inE; apply/orP; right; apply/bigcupP; exists k'.
    by rewrite step_mod modnMDl modn_small.
  apply: (subsetP (heard_mono _ _)) jt.
  by rewrite (leq_trans _ (leq_addr _ _)) // -[t in t <= _]muln1 leq_mul2l p0 orbT.
elim: t k j => [|t IH] k j; first by rewrite inE => /eqP ->; apply: connect0.
rewrite heard_self; case/setUP=> [/IH //|/bigcupP[k' k'A /IH]]; apply: connect_trans; apply: connect1.
by apply/existsP; exists (Ordinal (ltn_pmod t p0)); rewrite -step_mod.
Qed.

(* Condition 3 is strong connectivity. *)
Theorem condition3 : (exists t, forall k, heard t k = setT) <-> (forall k j, connect reads k j).
Proof.
split=> [[t full] k j|conn]; first by apply/reached; exists t; rewrite full inE.
have /fin_all_exists[t tP] : forall q : T * T, exists t, q.2 \in heard t q.1.
  by move=> q; apply/reached; apply: conn.
exists (\max_q t q) => k; apply/setP => j; rewrite inE.
by apply: (subsetP (heard_mono _ (leq_bigmax (k, j)))); apply: (tP (k, j)).
Qed.

(* every function of the input and the token is the read-out of some network *)
Definition realisable c := forall f : {ffun T -> V} -> T -> rat,
  exists t g h, forall X k, h (net c g t X k) = f X k.
Theorem realise_iff : 1 < #|V| -> realisable half <-> (forall k j, connect reads k j).
Proof.
case/card_gt1P=> a [b [_ _ ab]]; split=> [all_f k j|/condition3[t full] f].
  (* a token that does not hear of j cannot tell two inputs at j apart *)
  apply/reached; have [t [g [h hf]]] := all_f (fun X _ => (X j == a)%:R)%R.
  exists t; apply: contraT => jt.
  pose X := [ffun _ : T => a]; pose X' := [ffun i => if i == j then b else a].
  have same : net half g t X k = net half g t X' k.
    apply: fields => i it; rewrite !ffunE.
    by case: eqP => // ij; rewrite -ij it in jt.
  by have := hf X' k; rewrite -same hf !ffunE !eqxx eq_sym (negbTE ab) => /eqP; rewrite oner_eq0.
(* when all is heard, the state determines token and input; look the value up *)
have [g gP] := determines t; pose q (X : {ffun T -> V}) k := net half g t X k.
pose h x := if [pick y : {ffun T -> V} * T | q y.1 y.2 == x] is Some y then f y.1 y.2 else 0%R.
exists t, g, h => X k; rewrite /h; case: pickP => [[X' k'] /= /eqP/gP[-> eqX]|/(_ (X, k))].
  by congr f; apply/ffunP => i; rewrite eqX // full inE.
by rewrite /= eqxx.
Qed.
End Reachability.

(* With value weight 1 the skip does not replace self-loops. Two tokens that read only each other:
  *)
Definition swap (l : nat) (k : bool) := [set ~~ k].
Theorem weight_one_fails : (forall k j, connect (reads swap 1) k j) /\
  ~ realisable bool_finType swap 1%R.
Proof.
have set1_mean (s : bool -> rat) k : mean_on [set ~~ k] s = s (~~ k).
  by rewrite /mean_on big_set1 cards1 divr1.
split=> [k j|all_f].
  have [<-|jk] := eqVneq k j; first exact: connect0.
  by apply: connect1; apply/existsP; exists ord0; rewrite inE; case: k j jk => -[].
(* no layer: the other token is unheard; some layers: both tokens have the same state *)
have [[|t] [g [h hf]]] := all_f (fun X k => (X (~~ k))%:R)%R.
  by have := hf [ffun=> true] true; have := hf [ffun k => k] true; rewrite /= !ffunE => -> /eqP.
have same X : net (V := bool_finType) swap 1 g t.+1 X true = net swap 1 g t.+1 X false.
  by rewrite /= /layer !set1_mean !mul1r addrC.
by have := hf [ffun k => k] true; rewrite same hf !ffunE => /eqP.
Qed.
(* With value weight 1/2 the same pattern realises every function. *)
Example weight_half_serves : realisable bool_finType swap 2%:R^-1%R.
Proof.
by apply/(@realise_iff _ bool_finType swap 1); rewrite ?card_bool //; case: weight_one_fails.
Qed.
